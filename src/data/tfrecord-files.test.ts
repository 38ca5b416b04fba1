import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { noTensorflow, runTensorflow } from '../../test/support/python-tensorflow.ts';
import { sourcePath } from '../../test/support/repository.ts';
import { decodeExample } from './formats/example/decode.ts';
import { encodeSequenceExample } from './formats/example/encode.ts';
import { exampleDecoder } from './formats/example/example-decoder.ts';
import { FixedLenFeature, FixedLenSequenceFeature, VarLenFeature } from './formats/example/features.ts';
import { sequenceExampleDecoder } from './formats/example/sequence-decoder.ts';
import { memoryFile } from './formats/memory-file.ts';
import { decodeIndex, encodeIndex, findIndex, parseDaliIndex } from './formats/tfrecord/index-file.ts';
import { tfRecordFormat } from './formats/tfrecord/tfrecord-format.ts';
import { recordKernels } from './record-kernels.ts';
import { TfRecordWriter, writeTfRecords } from './tfrecord-writer.ts';

const folder = mkdtempSync(join(tmpdir(), 'horovod-tfrecord-'));
after(() => rmSync(folder, { recursive: true }));

const format = tfRecordFormat({ kernels: recordKernels() });

interface Expected {
  files: Record<string, { records: number; sha256: string }>;
  examples: Record<string, (string | number)[]>[];
  sequences: Record<string, (string | number | number[])[]>[];
}

describe('files of Python TensorFlow', () => {
  const fixture = (name: string) => readFileSync(sourcePath(join('tfrecord', name)));
  const expected = JSON.parse(String(fixture('expected.json'))) as Expected;

  for (const [name, { records, sha256 }] of Object.entries(expected.files)) {
    test(`${name} has the records that TensorFlow reads`, async () => {
      const list = await recordsOf(fixture(name), name);
      assert.equal(list.length, records);
      assert.equal(digestOf(list), sha256);
      assert.equal((await format.index(memoryFile(name, fixture(name)))).records, records);
    });
  }

  test('Examples have the values that tf.io.parse_single_example gives', async () => {
    const decoder = exampleDecoder({
      image: FixedLenFeature([], 'string'),
      label: FixedLenFeature([], 'int64'),
      weight: FixedLenFeature([], 'float32'),
      corners: FixedLenFeature([2, 2], 'float32'),
      big: FixedLenFeature([3], 'int64'),
      words: VarLenFeature('string'),
      history: VarLenFeature('int64'),
      sometimes: FixedLenFeature([], 'int64', -7),
    });
    const records = (await recordsOf(fixture('plain.tfrecord'))).slice(0, expected.examples.length);
    const parsed = records.map((record) => listed(decoder.element(record)));
    assert.deepEqual(parsed, expected.examples);
    // The same into rows, with the bytes of the image as raw values.
    const rows = exampleDecoder({
      image: FixedLenFeature([2, 6], 'uint8'),
      label: FixedLenFeature([], 'int32'),
    });
    const columns = [new Uint8Array(12 * records.length), new Int32Array(records.length)] as const;
    for (const [row, record] of records.entries()) rows.fill(record, 0, record.length, row, columns);
    assert.equal(
      Buffer.from(columns[0]).toString('hex'),
      expected.examples.map(({ image }) => image?.[0]).join(''),
    );
    assert.deepEqual(
      [...columns[1]].map(String),
      expected.examples.map(({ label }) => label?.[0]),
    );
  });

  test('an Example with very many features is read by name', async () => {
    const [record = new Uint8Array(0)] = await recordsOf(fixture('many-features.tfrecord'));
    const names = ['f0', 'f1', 'f999', 'f1999'];
    const decoder = exampleDecoder(
      Object.fromEntries(names.map((name) => [name, FixedLenFeature([], 'int32')])),
    );
    assert.deepEqual(Object.values(listed(decoder.element(record))), [[0], [1], [999], [1999]]);
  });

  test('SequenceExamples have the values that tf.io.parse_single_sequence_example gives', async () => {
    const decoder = sequenceExampleDecoder(
      { id: FixedLenFeature([], 'int64'), length: FixedLenFeature([], 'int64') },
      { frames: FixedLenSequenceFeature([2], 'float32'), tokens: VarLenFeature('int32') },
    );
    for (const [i, record] of (await recordsOf(fixture('sequence.tfrecord'))).entries()) {
      const {
        tokens,
        ['tokens/lengths']: lengths,
        ...rest
      } = listed(await decoder.element(record, 0, record.length));
      const { tokens: wanted = [], ...others } = expected.sequences[i] ?? {};
      assert.deepEqual(rest, others);
      assert.deepEqual(tokens, wanted.flat());
      assert.deepEqual(
        lengths,
        wanted.map((step) => (step as number[]).length),
      );
    }
  });
});

describe('TfRecordWriter', () => {
  for (const compression of ['none', 'gzip', 'zlib'] as const) {
    test(`writes files (${compression}) whose records come back, with an index beside them`, async () => {
      const path = join(folder, `${compression}.tfrecord`);
      // More than a piece, records larger than a piece, and empty ones.
      const records = [0, 5, 3_000_000, 0, 700_000, 700_000].map((length, i) =>
        new Uint8Array(length).fill(i),
      );
      const writer = await TfRecordWriter.create(path, { compression });
      for (const record of records) await writer.write(record);
      await writer.writeExample({ label: 3 });
      assert.deepEqual(
        readdirSync(folder).filter((name) => name.startsWith(compression)),
        [],
      );
      await writer.close();
      await writer.close();
      const content = readFileSync(path);
      const read = await recordsOf(content);
      assert.deepEqual(read.slice(0, -1), records);
      const { mtimeMs } = statSync(path);
      const { index, version } = decodeIndex(readFileSync(`${path}.hvdidx`), 'x');
      assert.deepEqual(version, { size: content.length, modifiedMs: Math.floor(mtimeMs), etag: undefined });
      assert.deepEqual(index, await format.index(memoryFile('x', content)));
      await assert.rejects(writer.write(new Uint8Array(1)), {
        code: 'ERR_HVD_INVALID_ARGUMENT',
        message: /closed/,
      });
    });
  }

  test('leaves nothing if it is not closed', async () => {
    const inner = mkdtempSync(join(folder, 'inner-'));
    await assert.rejects(
      async () => {
        await using writer = await TfRecordWriter.create(join(inner, 'a.tfrecord'), { compression: 'gzip' });
        await writer.write(new Uint8Array(10));
        throw new Error('in the middle');
      },
      { message: 'in the middle' },
    );
    assert.deepEqual(readdirSync(inner), []);
    await assert.rejects(TfRecordWriter.create(join(inner, 'no folder', 'a.tfrecord')), {
      code: 'ERR_HVD_FILE_SYSTEM',
    });
    await assert.rejects(
      async () => TfRecordWriter.create(join(inner, 'a'), { compression: 'lz4' as never }),
      {
        code: 'ERR_HVD_INVALID_ARGUMENT',
        message: /'none', 'gzip' or 'zlib'/,
      },
    );
    await using writer = await TfRecordWriter.create(join(inner, 'a.tfrecord'));
    await assert.rejects(writer.write('text' as never), {
      code: 'ERR_HVD_INVALID_ARGUMENT',
      message: /writeExample/,
    });
  });
});

describe('writeTfRecords()', () => {
  test('deals records round robin, and ranks write their own shards', async () => {
    const inner = mkdtempSync(join(folder, 'shards-'));
    const elements = Array.from({ length: 11 }, (_, i) => ({ i }));
    const pattern = join(inner, 'train-{shard}-of-{shards}.tfrecord');
    const written = await Promise.all(
      [0, 1].map((rank) => writeTfRecords(elements, pattern, { shards: 3, rank, size: 2, index: false })),
    );
    assert.deepEqual(
      written.map(({ records }) => records),
      [7, 4],
    );
    assert.deepEqual(readdirSync(inner).sort(), [
      'train-00000-of-00003.tfrecord',
      'train-00001-of-00003.tfrecord',
      'train-00002-of-00003.tfrecord',
    ]);
    const decoder = exampleDecoder({ i: FixedLenFeature([], 'int32') });
    const [records = []] = await Promise.all([
      recordsOf(readFileSync(join(inner, 'train-00001-of-00003.tfrecord'))),
    ]);
    assert.deepEqual(
      records.map((record) => listed(decoder.element(record))['i']),
      [[1], [4], [7], [10]],
    );
  });

  test('makes no file if the elements fail, and rejects wrong options', async () => {
    const inner = mkdtempSync(join(folder, 'failing-'));
    const failing = function* () {
      yield { i: 1 };
      throw new Error('no more');
    };
    await assert.rejects(writeTfRecords(failing(), join(inner, '{shard}.tfrecord'), { shards: 2 }), {
      message: 'no more',
    });
    assert.deepEqual(readdirSync(inner), []);
    const code = 'ERR_HVD_INVALID_ARGUMENT';
    await assert.rejects(writeTfRecords([], 'x.tfrecord', { shards: 2 }), {
      code,
      message: /needs \{shard\}/,
    });
    await assert.rejects(writeTfRecords([], 'x.tfrecord', { rank: 1 }), { code, message: /rank 1/ });
    await assert.rejects(writeTfRecords([], 'x.tfrecord', { shards: 0 }), { code, message: /shards/ });
  });
});

describe('index files', () => {
  const index = { records: 3, offsets: Float64Array.of(0, 20, 300, 2 ** 40) };

  test('come back as they were written, and every change of a byte is noticed', () => {
    const version = { size: 2 ** 40, modifiedMs: 1_700_000_000_123, etag: '"a"' };
    const bytes = encodeIndex(index, version);
    assert.deepEqual(decodeIndex(bytes, 'x'), { index, version });
    for (let at = 0; at < bytes.length; at++) {
      const damaged = Uint8Array.from(bytes);
      damaged[at] = 1 ^ (damaged[at] as number);
      assert.throws(() => decodeIndex(damaged, 'x.hvdidx'), {
        code: 'ERR_HVD_DATA_FILE',
        message: /x\.hvdidx.*Delete it/,
      });
      assert.throws(() => decodeIndex(bytes.subarray(0, at), 'x'), { code: 'ERR_HVD_DATA_FILE' });
    }
  });

  test('are used only if they are of this version of the file; then DALI indices are tried', async () => {
    const version = { size: 2 ** 40, modifiedMs: 5 };
    const dali = { records: 2, offsets: Float64Array.of(0, 100, 2 ** 40) };
    const files: Record<string, Uint8Array> = {
      'a.tfrecord.hvdidx': encodeIndex(index, version),
      'a.idx': Buffer.from(`0 100\n100 ${2 ** 40 - 100}\n`),
    };
    const find = (current: typeof version) => findIndex('a.tfrecord', current, async (name) => files[name]);
    assert.deepEqual(await find(version), index);
    assert.deepEqual(await find({ ...version, modifiedMs: 6 }), dali);
    assert.equal(await find({ ...version, size: 7 }), undefined);
    assert.equal(parseDaliIndex('0 100\n50 100\n', 150), undefined);
    assert.equal(parseDaliIndex('x y\n', 150), undefined);
  });

  test('of a file that was changed after it is not used', async () => {
    const path = join(folder, 'changed.tfrecord');
    await writeTfRecords([{ a: 1 }], path);
    const readSidecar = async (name: string) => (name.endsWith('.hvdidx') ? readFileSync(name) : undefined);
    const find = () => {
      const { size, mtimeMs } = statSync(path);
      return findIndex(path, { size, modifiedMs: mtimeMs }, readSidecar);
    };
    assert.equal((await find())?.records, 1);
    utimesSync(path, 1000, 1000);
    assert.equal(await find(), undefined);
    writeFileSync(path, '');
    assert.equal(await find(), undefined);
  });
});

describe('Python TensorFlow reads what we write', { skip: noTensorflow }, () => {
  test('records and Examples of every compression; both notice a flipped bit', async () => {
    const inner = mkdtempSync(join(folder, 'for-tensorflow-'));
    const long = new Uint8Array(1 << 26).fill(7);
    for (const compression of ['none', 'gzip', 'zlib'] as const) {
      const writer = await TfRecordWriter.create(join(inner, compression), { compression });
      await writer.writeExample({ i: -3, f: Float32Array.of(0.5, 3e38), s: ['a', 'é'], none: [] });
      await writer.write(new Uint8Array(0));
      if (compression === 'none') await writer.write(long);
      await writer.close();
    }
    const damaged = readFileSync(join(inner, 'none'));
    damaged[40] = 1 ^ (damaged[40] as number);
    writeFileSync(join(inner, 'damaged'), damaged);
    await assert.rejects(recordsOf(damaged), { code: 'ERR_HVD_DATA_FILE' });
    const result = runTensorflow<Record<string, unknown>>(
      `
result = {}
for compression in ['', 'GZIP', 'ZLIB']:
    records = [r.numpy() for r in tf.data.TFRecordDataset(folder + '/' + (compression.lower() or 'none'), compression)]
    values = tf.io.parse_single_example(records[0], {
        'i': tf.io.FixedLenFeature([], tf.int64), 'f': tf.io.FixedLenFeature([2], tf.float32),
        's': tf.io.FixedLenFeature([2], tf.string), 'none': tf.io.VarLenFeature(tf.int64)})
    result[compression] = [[len(r) for r in records[1:]], int(values['i']), values['f'].numpy().tolist(),
        [s.decode() for s in values['s'].numpy()], len(values['none'].values)]
try:
    list(tf.data.TFRecordDataset(folder + '/damaged'))
except tf.errors.DataLossError:
    result['damaged'] = 'DataLossError'
print(json.dumps(result))`,
      [inner],
    );
    const values = [-3, [0.5, Math.fround(3e38)], ['a', 'é'], 0];
    assert.deepEqual(result, {
      '': [[0, long.length], ...values],
      GZIP: [[0], ...values],
      ZLIB: [[0], ...values],
      damaged: 'DataLossError',
    });
  });

  test('SequenceExamples that we write have the same values there', async () => {
    const inner = mkdtempSync(join(folder, 'sequences-'));
    const frames = [Float32Array.of(0.5, -1), Float32Array.of(2, 3)];
    const example = encodeSequenceExample({
      context: { id: 7 },
      sequence: { frames, tokens: [[1], [2, 3]] },
    });
    await writeTfRecords([example], join(inner, 'sequences'));
    const result = runTensorflow<unknown>(
      `
record = next(iter(tf.data.TFRecordDataset(folder + '/sequences'))).numpy()
context, lists = tf.io.parse_single_sequence_example(record, {'id': tf.io.FixedLenFeature([], tf.int64)},
    {'frames': tf.io.FixedLenSequenceFeature([2], tf.float32), 'tokens': tf.io.RaggedFeature(tf.int64)})
print(json.dumps([int(context['id']), lists['frames'].numpy().tolist(), lists['tokens'].to_list()]))`,
      [inner],
    );
    assert.deepEqual(result, [
      7,
      [
        [0.5, -1],
        [2, 3],
      ],
      [[1], [2, 3]],
    ]);
  });

  test('we read what it writes: a record of 64 MiB, and an Example with 10 000 features', async () => {
    const inner = mkdtempSync(join(folder, 'of-tensorflow-'));
    runTensorflow<null>(
      `
features = {f'f{i}': tf.train.Feature(int64_list=tf.train.Int64List(value=[i])) for i in range(10000)}
many = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
for compression in ['', 'GZIP', 'ZLIB']:
    with tf.io.TFRecordWriter(folder + '/' + (compression.lower() or 'none'), compression) as writer:
        writer.write(bytes(range(256)) * (1 << 18))
        writer.write(many)
print('null')`,
      [inner],
    );
    for (const compression of ['none', 'gzip', 'zlib']) {
      const [long, many] = await recordsOf(readFileSync(join(inner, compression)));
      assert.equal(long?.length, 1 << 26);
      assert.ok(long?.every((byte, i) => byte === i % 256));
      const values = Object.entries(decodeExample(many ?? new Uint8Array(0)));
      assert.equal(values.length, 10_000);
      assert.ok(values.every(([name, value]) => `f${(value as BigInt64Array)[0]}` === name));
    }
  });
});

async function recordsOf(content: Uint8Array, name = 'x'): Promise<Uint8Array[]> {
  const records: Uint8Array[] = [];
  for await (const { bytes, starts, lengths, count } of format.stream(memoryFile(name, content))) {
    for (let i = 0; i < count; i++) {
      const start = starts[i] as number;
      records.push(Uint8Array.from(bytes.subarray(start, start + (lengths[i] as number))));
    }
  }
  return records;
}

function digestOf(records: readonly Uint8Array[]): string {
  const hash = createHash('sha256');
  for (const record of records) {
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(record.length));
    hash.update(length).update(record);
  }
  return hash.digest('hex');
}

/** As generate.py lists them: int64 as text, byte strings in hex. */
function listed(element: object): Record<string, (string | number)[]> {
  return Object.fromEntries(
    Object.entries(element).map(([name, value]) => {
      const list = value instanceof Uint8Array ? [value] : Array.isArray(value) ? value : [...value.data];
      return [
        name,
        list.map((each: unknown) =>
          each instanceof Uint8Array
            ? Buffer.from(each).toString('hex')
            : typeof each === 'bigint'
              ? String(each)
              : (each as number),
        ),
      ];
    }),
  );
}
