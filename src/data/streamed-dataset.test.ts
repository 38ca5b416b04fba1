// Sources whose records nobody has counted: files with index: 'none', and moduleDataset().

import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { Tensor } from '../tensor/tensor.ts';
import type { Dataset } from './dataset.ts';
import { csvDataset, textLineDataset } from './file-sources.ts';
import { FixedLenFeature } from './formats/example/features.ts';
import type { DataState } from './order/state.ts';
import { type ModuleDatasetOptions, moduleDataset, type SourceOptions, tfRecordDataset } from './sources.ts';
import { writeTfRecords } from './tfrecord-writer.ts';

const range = (length: number, from = 0) => Array.from({ length }, (_, each) => from + each);
const sorted = (list: Iterable<number>) => [...list].sort((a, b) => a - b);
const folder = mkdtempSync(join(tmpdir(), 'hvd-streamed-'));
const at = (name: string) => join(folder, name);
const functions = new URL('../../test/fixtures/data/functions.js', import.meta.url);
const samples = 700;

before(async () => {
  const records = range(samples).map((id) => ({ id: [id] }));
  await writeTfRecords(records, at('plain-{shard}.tfrecord'), { shards: 5, index: false });
  await writeTfRecords(records, at('gzip-{shard}.tfrecord'), {
    shards: 5,
    index: false,
    compression: 'gzip',
  });
  for (const part of range(5)) {
    const lines = range(samples)
      .filter((id) => id % 5 === part)
      .map((id) => `${id}\n`);
    writeFileSync(at(`lines-${part}.txt`), part === 2 ? gzipSync(lines.join('')) : lines.join(''));
  }
});
after(() => rmSync(folder, { recursive: true }));

type Options = Pick<SourceOptions, 'shuffle' | 'rank' | 'size' | 'shard'>;
const parse = (data: Dataset<Uint8Array>) =>
  data.parseExample<{ id: Tensor }>({ id: FixedLenFeature([], 'int32') });
const numbersOf = (batch: unknown): number[] =>
  Array.isArray(batch)
    ? batch.map(Number)
    : Array.from((batch as { id: Tensor }).id.data as Int32Array, Number);

/** Each has sample n in part n mod 5, in growing order. */
const sources: Readonly<Record<string, (options?: Options) => Dataset<unknown>>> = {
  'TFRecord files': (options) =>
    parse(tfRecordDataset(at('plain-*.tfrecord'), { index: 'none', ...options })),
  'compressed TFRecord files': (options) =>
    parse(tfRecordDataset(at('gzip-*.tfrecord'), { index: 'none', ...options })),
  'text files': (options) => textLineDataset(at('lines-*.txt'), { index: 'none', ...options }),
  'moduleDataset()': (options) =>
    moduleDataset(functions, 'numbersOfPart', { count: samples }, { parts: 5, ...options }),
};
const inOrder = range(5).flatMap((part) => range(samples).filter((id) => id % 5 === part));

async function all<T>(
  dataset: Dataset<T>,
  { threads = 0, limit = Number.POSITIVE_INFINITY } = {},
): Promise<T[]> {
  const before = { ...process.env };
  process.env['HOROVOD_DATA_THREADS'] = String(threads);
  try {
    const found: T[] = [];
    for await (const each of dataset) if (found.push(each) >= limit) break;
    return found;
  } finally {
    process.env = before;
  }
}
const taken = (batches: readonly unknown[]) => batches.flatMap(numbersOf);

for (const [name, make] of Object.entries(sources)) {
  describe(`${name}, not counted`, () => {
    test('come in the order of files, with the same bits in threads', async () => {
      for (const threads of [0, 2]) {
        assert.deepEqual(taken(await all(make().batch(32), { threads })), inOrder);
        assert.equal((await all(make(), { threads })).length, samples);
      }
      assert.equal(make().batch(32).size, null);
    });

    test('a shuffle changes the order of files, another one in each epoch', async () => {
      const data = make({ shuffle: { seed: 3 } }).batch(7);
      const epochs = [taken(await all(data)), taken(await all(data)), taken(await all(data))];
      for (const epoch of epochs) assert.deepEqual(sorted(epoch), range(samples));
      const orders = epochs.map((epoch) => [...new Set(epoch.map((id) => id % 5))].join());
      assert.ok(new Set(orders).size > 1, orders.join(' '));
      assert.deepEqual(taken(await all(make({ shuffle: { seed: 3 } }).batch(7), { threads: 1 })), epochs[0]);
    });

    test('resume by skipping, in every place, also in a later epoch', async () => {
      const open = () =>
        make({ shuffle: { seed: 1 } })
          .batch(30)
          .repeat(2);
      const whole = taken(await all(open()));
      for (const batches of [1, 5, 9, 24, 30]) {
        const data = open();
        const first = taken(await all(data, { limit: batches, threads: batches % 2 }));
        const state = JSON.parse(JSON.stringify(await data.state())) as DataState;
        const resumed = open();
        resumed.restore(state);
        assert.deepEqual([...first, ...taken(await all(resumed))], whole, `after ${batches} batches`);
      }
    });

    test('ranks divide the files, each sample once, and one that has none says so', async () => {
      const found: number[] = [];
      for (const rank of range(3)) found.push(...taken(await all(make({ rank, size: 3 }).batch(16))));
      assert.deepEqual(sorted(found), range(samples));
      await assert.rejects(all(make({ rank: 0, size: 6 }).batch(16)), {
        code: 'ERR_HVD_INVALID_ARGUMENT',
        message: /has 5 (files|parts), which are not counted, and 6 ranks need one each/,
      });
      assert.equal(taken(await all(make({ shard: 'none', rank: 1, size: 2 }).batch(16))).length, samples);
    });
  });
}

/** The lines that are logged meanwhile. */
async function stderrOf(run: () => Promise<void>): Promise<string[]> {
  const { write } = process.stderr;
  const pieces: string[] = [];
  process.stderr.write = (piece) => pieces.push(String(piece)) > 0;
  try {
    await run();
  } finally {
    process.stderr.write = write;
  }
  return pieces.join('').split('\n');
}

describe("index: 'none'", () => {
  test('looks at no file before it is read, and writes none', async () => {
    const data = tfRecordDataset([at('plain-*.tfrecord'), at('missing-*.tfrecord')], { index: 'none' });
    await assert.rejects(all(data), { message: /missing-/ });
    assert.deepEqual(
      readdirSync(folder).filter((name) => name.includes('hvdidx')),
      [],
    );
  });

  test('damaged records are skipped and counted, or an error', async () => {
    const path = at('damaged.tfrecord');
    await writeTfRecords(
      range(50).map((id) => ({ id: [id] })),
      path,
      { index: false },
    );
    const bytes = readFileSync(path);
    bytes[bytes.length - 6] = (bytes[bytes.length - 6] ?? 0) ^ 1;
    writeFileSync(path, bytes);
    await assert.rejects(all(tfRecordDataset(path, { index: 'none' })), {
      code: 'ERR_HVD_DATA_FILE',
      message: /damaged\.tfrecord: .*its checksum does not match/,
    });
    const data = tfRecordDataset(path, { index: 'none', onCorrupt: 'skip' });
    const lines = await stderrOf(async () => {
      assert.equal((await all(data)).length, 49);
      assert.equal((await all(data)).length, 49, 'again');
    });
    assert.equal(data.metrics().damagedRecords, 2);
    const told = lines.filter((line) => line.includes('is damaged and left out'));
    assert.equal(told.length, 1, lines.join('\n'));
    assert.match(told[0] ?? '', /\[horovod warning\] rank 0: .*damaged\.tfrecord: byte \d+ is damaged/);
  });

  test('what needs the number of records is rejected', () => {
    const wrong = { code: 'ERR_HVD_INVALID_ARGUMENT' };
    const data = tfRecordDataset('a', { index: 'none' });
    assert.throws(() => data.take(5), {
      ...wrong,
      message: /records of tfRecordDataset\(\) with index: 'none' are not counted/,
    });
    assert.throws(() => data.cache(), wrong);
    assert.throws(() => data.shuffle('all'), wrong);
    assert.throws(() => tfRecordDataset('a', { index: 'none', shuffle: { pool: 'all' } }), wrong);
    assert.throws(() => tfRecordDataset('a', { index: 'none', shard: 'records' }), wrong);
    assert.throws(() => csvDataset('a', { columns: { x: 'int32' }, index: 'none' }), wrong);
  });
});

describe('moduleDataset()', () => {
  const numbers = (args: object, options: ModuleDatasetOptions = {}) =>
    moduleDataset<{ id: number }>(functions, 'numbersOfPart', args as never, options);

  test('factories get part, parts, epoch and seed', async () => {
    const data = moduleDataset(functions, undefined, null, { parts: 2, shuffle: { seed: 9 }, shard: 'none' });
    await all(data);
    const places = (await all(data, { threads: 1 })) as { part: number }[];
    assert.deepEqual(
      places.sort((a, b) => a.part - b.part),
      [
        { part: 0, parts: 2, epoch: 1, seed: 9 },
        { part: 1, parts: 2, epoch: 1, seed: 9 },
      ],
    );
  });

  test('what a factory throws names the module, the part and the epoch', async () => {
    for (const threads of [0, 1]) {
      await assert.rejects(all(numbers({ count: 20, fails: 7 }, { parts: 4 }), { threads }), {
        code: 'ERR_HVD_DATA_FUNCTION',
        message:
          /numbersOfPart of .*functions\.js\) failed in part 3 of 4, epoch 0, after 1 elements: this part is bad/,
      });
      await assert.rejects(all(moduleDataset(functions, 'notIterable'), { threads }), {
        code: 'ERR_HVD_INVALID_ARGUMENT',
        message: /must return a dataset or an \(async\) iterable, not 5/,
      });
      await assert.rejects(all(moduleDataset(functions, 'nothing'), { threads }), {
        message: /no function of this name/,
      });
    }
  });

  test('wrong arguments are rejected at once', () => {
    const wrong = { code: 'ERR_HVD_INVALID_ARGUMENT' };
    assert.throws(() => numbers({}, { parts: 0 }), wrong);
    assert.throws(() => numbers({}, { shard: 'records' }), wrong);
    assert.throws(() => moduleDataset('./relative.ts'), wrong);
    assert.throws(() => moduleDataset(functions, 'x', null, { index: 'none' } as never), wrong);
    assert.throws(() => numbers({}).parseExample({ x: FixedLenFeature([], 'int32') }), wrong);
  });
});
