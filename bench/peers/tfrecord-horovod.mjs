// Our side of bench/data.mjs: reads a task per line, repeats it until its time is over, and prints the figures. `records` and `parsed`
// are pipelines as users write them, in the main thread (HOROVOD_DATA_THREADS=0), which take batches as large as TensorFlow's and give
// them back; `records-each` takes records one by one. The tasks `codec-…` use the codec alone, without an order of samples and with
// memory that is used again: what a pipeline could reach. `digest` and `write-file` are for comparing values.
import { createHash } from 'node:crypto';
import { open, rm } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { exampleDecoder } from '../../dist/data/formats/example/example-decoder.js';
import { FixedLenFeature } from '../../dist/data/formats/example/features.js';
import { tfRecordFormat } from '../../dist/data/formats/tfrecord/tfrecord-format.js';
import { tfRecordDataset } from '../../dist/data/index.js';
import { recordKernels } from '../../dist/data/record-kernels.js';
import { TfRecordWriter } from '../../dist/data/tfrecord-writer.js';
import { loadNative } from '../../dist/transport/native/load.js';

const format = tfRecordFormat({ kernels: recordKernels() });
const batchSize = 128;
/** Of records of 100 KB. */
const longBatchSize = 10;
const pixels = 3072;

const features = { image: FixedLenFeature([pixels], 'uint8'), label: FixedLenFeature([], 'int32') };
const pipelines = new Map();

/** One dataset for each task and file: its files are indexed once, as in a training job. */
function pipeline(name, file, make) {
  const key = `${name} ${file}`;
  if (!pipelines.has(key)) pipelines.set(key, make());
  return pipelines.get(key);
}

const tasks = {
  async records(file) {
    const size = file.includes('100k') ? longBatchSize : batchSize;
    const make = () => tfRecordDataset(file, { uneven: 'keep' }).batch(size);
    let [records, bytes] = [0, 0];
    const batches = pipeline('records', file, make).iterator();
    for await (const batch of batches) {
      records += batch.length;
      for (const record of batch) bytes += record.length;
      batches.release(batch);
    }
    return { records, bytes };
  },

  async 'records-each'(file) {
    let [records, bytes] = [0, 0];
    for await (const record of pipeline('records-each', file, () => tfRecordDataset(file))) {
      records += 1;
      bytes += record.length;
    }
    return { records, bytes };
  },

  async parsed(file) {
    const make = () => tfRecordDataset(file, { uneven: 'keep' }).parseExample(features).batch(batchSize);
    let records = 0;
    const batches = pipeline('parsed', file, make).iterator();
    for await (const batch of batches) {
      records += batch.label.shape[0];
      batches.release(batch);
    }
    return { records, bytes: records * pixels };
  },

  async 'codec-records'(file) {
    let [records, bytes] = [0, 0];
    await withFile(file, async (handle) => {
      for await (const { count, lengths } of format.stream(handle, reusedMemory())) {
        records += count;
        for (let i = 0; i < count; i++) bytes += lengths[i];
      }
    });
    return { records, bytes };
  },

  async 'codec-parsed'(file) {
    const decoder = exampleDecoder(features);
    const columns = [new Uint8Array(batchSize * pixels), new Int32Array(batchSize)];
    let [records, row] = [0, 0];
    await withFile(file, async (handle) => {
      for await (const block of format.stream(handle, reusedMemory())) {
        for (let i = 0; i < block.count; i++) {
          decoder.fill(block.bytes, block.starts[i], block.lengths[i], row, columns);
          row = (row + 1) % batchSize;
        }
        records += block.count;
      }
    });
    return { records, bytes: records * pixels };
  },

  async write(file) {
    const image = new Uint8Array(pixels).map((_, i) => i);
    const writer = await TfRecordWriter.create(`${file}-horovod`, { index: false });
    const records = 5000;
    for (let i = 0; i < records; i++) await writer.writeExample({ image, label: i % 10 });
    await writer.close();
    await rm(`${file}-horovod`);
    return { records, bytes: records * pixels };
  },
};

/** All values of a file, as its records have them. */
async function digest(file) {
  const strings = { image: FixedLenFeature([], 'string'), label: FixedLenFeature([], 'int64') };
  const hash = createHash('sha256');
  let records = 0;
  for await (const { image, label } of tfRecordDataset(file, { uneven: 'keep' }).parseExample(strings)) {
    hash.update(image);
    hash.update(String(label.data[0]));
    records += 1;
  }
  return { records, digest: hash.digest('hex') };
}

async function writeFile(file) {
  const writer = await TfRecordWriter.create(file, { index: false });
  for (let i = 0; i < 1000; i++) {
    const image = new Uint8Array(i * 7).map((_, at) => i + at * at);
    await writer.writeExample({ image, label: i - 500 });
  }
  await writer.close();
  return { written: 1000 };
}

// Blocks are used one after another, so a few pieces of memory serve all of them, as in a pipeline's arena.
function reusedMemory() {
  const pieces = [];
  let next = 0;
  return {
    allocate(bytes) {
      const place = next++ % 3;
      if (pieces[place] === undefined || pieces[place].length < bytes) pieces[place] = new Uint8Array(bytes);
      return pieces[place];
    },
  };
}

async function withFile(location, use) {
  const file = await open(location);
  try {
    const { size } = await file.stat();
    const read = async (target, position) => (await file.read(target, 0, target.length, position)).bytesRead;
    await use({ location, size, read });
  } finally {
    await file.close();
  }
}

const warm = new Set();
for await (const line of createInterface({ input: process.stdin })) {
  const { task, file, seconds } = JSON.parse(line);
  if (task === 'versions') {
    const native = loadNative();
    console.log(
      JSON.stringify({
        node: process.version,
        crc32c: native.built ? native.addon.crc32cMethod : 'JavaScript',
      }),
    );
    continue;
  }
  if (task === 'digest' || task === 'write-file') {
    console.log(JSON.stringify(await (task === 'digest' ? digest : writeFile)(file)));
    continue;
  }
  const warmKey = `${task} ${file}`;
  if (task !== 'write' && !warm.has(warmKey)) {
    await tasks[task](file);
    warm.add(warmKey);
  }
  const total = { records: 0, bytes: 0, seconds: 0 };
  const [start, used] = [performance.now(), process.cpuUsage()];
  do {
    const { records, bytes } = await tasks[task](file);
    total.records += records;
    total.bytes += bytes;
    total.seconds = (performance.now() - start) / 1000;
  } while (total.seconds < seconds);
  const { user, system } = process.cpuUsage(used);
  console.log(JSON.stringify({ ...total, cpuSeconds: (user + system) / 1e6 }));
}
