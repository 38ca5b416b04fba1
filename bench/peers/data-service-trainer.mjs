// A trainer of bench/data.mjs: reads a task per line and prints its figure. `blocks`: batches of one size that compute workers have
// ready, from a data service. `mapped`: a pipeline with work in map(), made by a data service (`config`) or by threads of this process.
// Each pipeline stays open between tasks. What was made ahead meanwhile is taken first, and does not count. With a task as its argument
// it does that one.
import { createInterface } from 'node:readline';
import {
  exported,
  FixedLenFeature,
  rangeDataset,
  TfDataServiceConfig,
  tfRecordDataset,
} from '../../dist/data/index.js';

const batchSize = 128;
const features = { image: FixedLenFeature([3072], 'uint8'), label: FixedLenFeature([], 'int32') };
const work = new URL('./data-work.mjs', import.meta.url);
/** More than anybody makes ahead. */
const ahead = 48;

const pipelines = {
  blocks({ bytes }) {
    return rangeDataset(0, 100_000).map(exported(work, 'block', { bytes }));
  },
  mapped({ file, turns }) {
    return tfRecordDataset(file, { shard: 'none', uneven: 'keep' })
      .parseExample(features)
      .map(exported(work, 'turn', { turns }))
      .batch(batchSize)
      .prefetch(4);
  },
};

/** What is compared: a batch that is damaged or missing changes it. */
const sums = {
  blocks({ id, block }) {
    if (block.data[0] !== 7 || block.data.at(-1) !== 7) throw new Error('a block with other values');
    return { samples: 1, bytes: block.data.byteLength, sum: id.data[0] };
  },
  mapped({ label, turned }) {
    let sum = 0;
    for (let row = 0; row < label.data.length; row++) sum += label.data[row] * 256 + turned.data[row];
    return { samples: label.data.length, bytes: 0, sum };
  },
};

const open = new Map();

async function opened({ task, config, transport = 'auto', ...options }) {
  if (!open.has(task)) {
    let data = pipelines[task](options).repeat();
    if (config !== undefined) {
      const service = await TfDataServiceConfig.read(config, { waitForFileCreation: true });
      data = data.sendToDataService(service, 0, 1, { transport });
    }
    open.set(task, data.iterator());
  }
  return open.get(task);
}

const [, , given] = process.argv;
for await (const line of given === undefined ? createInterface({ input: process.stdin }) : [given]) {
  const { seconds, samples, ...task } = JSON.parse(line);
  const batches = await opened(task);
  const total = { samples: 0, bytes: 0, sum: 0, batches: 0, seconds: 0 };
  const take = async (counts) => {
    const { value } = await batches.next();
    const found = sums[task.task](value);
    batches.release(value);
    if (!counts) return;
    total.batches += 1;
    for (const name of ['samples', 'bytes', 'sum']) total[name] += found[name];
  };
  if (samples === undefined) for (let each = 0; each < ahead; each++) await take(false);
  const start = performance.now();
  do {
    await take(true);
    total.seconds = (performance.now() - start) / 1000;
  } while (samples === undefined ? total.seconds < seconds : total.samples < samples);
  console.log(JSON.stringify(total));
}
process.exit();
