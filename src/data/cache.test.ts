// cache('memory') and cache(folder).

import assert from 'node:assert/strict';
import {
  appendFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Tensor } from '../tensor/tensor.ts';
import type { Dataset } from './dataset.ts';
import { FixedLenFeature } from './formats/example/features.ts';
import { rangeDataset, type SourceOptions, tfRecordDataset } from './sources.ts';
import { writeTfRecords } from './tfrecord-writer.ts';

const range = (length: number) => Array.from({ length }, (_, each) => each);
const sorted = (list: Iterable<number>) => [...list].sort((a, b) => a - b);
const folder = mkdtempSync(join(tmpdir(), 'hvd-cache-'));
const at = (name: string) => join(folder, name);
const samples = 200;

before(async () => {
  const records = range(samples).map((id) => ({ id: [id] }));
  await writeTfRecords(records, at('train-{shard}.tfrecord'), { shards: 3 });
});
after(() => rmSync(folder, { recursive: true }));

interface Batch {
  id: Tensor;
  square: Tensor;
}

/** `calls`: which samples were computed. */
function squares(where: string, calls: number[], options: SourceOptions = {}): Dataset<Batch> {
  return tfRecordDataset(at('train-*.tfrecord'), {
    shuffle: { seed: 5, pool: 64 },
    uneven: 'keep',
    ...options,
  })
    .parseExample<{ id: Tensor }>({ id: FixedLenFeature([], 'int32') })
    .map((element) => {
      calls.push(Number(element.id.data[0]));
      return { id: element.id, square: Number(element.id.data[0]) ** 2 };
    })
    .cache(where)
    .batch(32) as unknown as Dataset<Batch>;
}

async function all<T>(dataset: Dataset<T>, threads = 0): Promise<T[]> {
  const before = { ...process.env };
  process.env['HOROVOD_DATA_THREADS'] = String(threads);
  try {
    const found: T[] = [];
    for await (const each of dataset) found.push(each);
    return found;
  } finally {
    process.env = before;
  }
}

const idsOf = (batches: readonly Batch[]) => batches.flatMap(({ id }) => [...(id.data as Int32Array)]);
const logsOf = (where: string) =>
  readdirSync(where).flatMap((digest) =>
    readdirSync(join(where, digest)).map((name) => join(where, digest, name)),
  );

describe('cache()', () => {
  for (const [name, where] of Object.entries({ memory: 'memory', folder: at('several') })) {
    test(`${name}: later epochs compute nothing, in their own order`, async () => {
      const calls: number[] = [];
      const data = squares(where, calls);
      const first = idsOf(await all(data, 1));
      assert.deepEqual(sorted(calls), range(samples));
      const second = await all(data, 1);
      assert.equal(calls.length, samples);
      assert.deepEqual(sorted(idsOf(second)), range(samples));
      assert.notDeepEqual(idsOf(second), first);
      for (const { id, square } of second) {
        assert.deepEqual(
          [...(square.data as Float64Array)],
          [...(id.data as Int32Array)].map((each) => each ** 2),
        );
      }
    });

    test(`${name}: records that give no element, or several, stay so`, async () => {
      const data = rangeDataset(0, 20)
        .flatMap((each) => range(each % 3).map((copy) => 10 * each + copy))
        .cache(where === 'memory' ? where : at('flat'));
      const first = await all(data);
      assert.equal(first.length, 19);
      assert.deepEqual(await all(data), first);
    });
  }

  test('a folder serves later datasets and other ranks; another pipeline has its own', async () => {
    const where = at('shared');
    const calls: number[] = [];
    for (const rank of range(2)) await all(squares(where, calls, { rank, size: 2 }));
    assert.deepEqual(sorted(calls), range(samples));
    const found: number[] = [];
    for (const rank of range(3)) found.push(...idsOf(await all(squares(where, calls, { rank, size: 3 }))));
    assert.deepEqual(sorted(found), range(samples));
    assert.equal(calls.length, samples);
    await all(squares(where, calls, { shuffle: { seed: 6, pool: 64 } }));
    assert.equal(calls.length, 2 * samples);
  });

  test('nextSync() reads the folder too', async () => {
    const where = at('blocking');
    const calls: number[] = [];
    await all(squares(where, calls));
    const iterator = squares(where, calls).iterator();
    await iterator.open();
    const found: Batch[] = [];
    for (let turn = iterator.nextSync(); !turn.done; turn = iterator.nextSync()) found.push(turn.value);
    assert.deepEqual(sorted(idsOf(found)), range(samples));
    assert.equal(calls.length, samples);
  });

  test('what a killed process has not written completely is computed again', async () => {
    const where = at('killed');
    const calls: number[] = [];
    await all(squares(where, calls));
    const [log] = logsOf(where);
    truncateSync(log as string, readFileSync(log as string).length - 5);
    appendFileSync(join(log as string, '../unfinished.elements'), 'abc');
    assert.deepEqual(sorted(idsOf(await all(squares(where, calls)))), range(samples));
    // A step is computed as a whole.
    assert.ok(calls.length > samples && calls.length <= samples + 32, String(calls.length));
  });

  test('a damaged element is an error that names the file and says what to do', async () => {
    const where = at('damaged');
    await all(squares(where, []));
    const [log] = logsOf(where);
    const bytes = readFileSync(log as string);
    bytes[bytes.length - 1] = (bytes.at(-1) as number) ^ 1;
    writeFileSync(log as string, bytes);
    await assert.rejects(all(squares(where, [])), {
      code: 'ERR_HVD_DATA_FILE',
      message: /\.elements: cache\(\): an element is damaged.*Delete the folder/,
    });
  });

  test('a folder that cannot be made, or is on another machine, is an error', async () => {
    writeFileSync(at('file'), '');
    await assert.rejects(all(squares(at('file/cache'), [])), {
      code: 'ERR_HVD_FILE_SYSTEM',
      message: /Cannot create .*file\/cache.*: a part of the path is not a folder/,
    });
    assert.throws(() => rangeDataset(0, 1).cache('hdfs://host/cache'), { code: 'ERR_HVD_INVALID_ARGUMENT' });
  });
});
