import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Tensor } from '../tensor/tensor.ts';
import { batchInfo } from './data-iterator.ts';
import type { Dataset } from './dataset.ts';
import { arrayDataset, rangeDataset } from './sources.ts';

const range = (length: number, from = 0) => Array.from({ length }, (_, each) => from + each);
const sorted = (list: Iterable<number>) => [...list].sort((a, b) => a - b);

async function all<T>(dataset: Dataset<T>, limit = Number.POSITIVE_INFINITY): Promise<T[]> {
  const found: T[] = [];
  if (limit === 0) return found;
  for await (const each of dataset) if (found.push(each) >= limit) break;
  return found;
}

const numbers = (batch: unknown) => [...((batch as Tensor).data as Float64Array)];

describe('a dataset', () => {
  test('gives its elements in their order, one pass after the other', async () => {
    const data = rangeDataset(3, 8);
    assert.equal(data.size, 5);
    assert.deepEqual(await all(data), [3, 4, 5, 6, 7]);
    assert.deepEqual(await all(data), [3, 4, 5, 6, 7]);
  });

  test('maps, batches and drops the remainder', async () => {
    const doubled = rangeDataset(0, 10).map((each) => each * 2);
    assert.deepEqual((await all(doubled.batch(4))).map(numbers), [
      [0, 2, 4, 6],
      [8, 10, 12, 14],
      [16, 18],
    ]);
    const dropped = doubled.batch(4, { dropRemainder: true });
    assert.equal(dropped.size, 2);
    assert.equal((await all(dropped)).length, 2);
  });

  test('batches rows of arrays, column by column', async () => {
    const data = arrayDataset({
      x: { data: new Float32Array(range(12)), shape: [4, 3], dtype: 'float32' },
      y: Int32Array.of(1, 2, 3, 4),
    });
    const [first, second] = await all(data.batch(3));
    assert.deepEqual(first, {
      x: { data: new Float32Array(range(9)), shape: [3, 3], dtype: 'float32' },
      y: { data: Int32Array.of(1, 2, 3), shape: [3], dtype: 'int32' },
    });
    assert.deepEqual((second as { y: Tensor }).y.data, Int32Array.of(4));
    const mapped = await all(data.map(({ y }) => ({ z: (y as Tensor).data[0] as number })).batch(4));
    assert.deepEqual(numbers(mapped[0]?.z), [1, 2, 3, 4]);
  });

  test('shuffles with another order in each epoch, and repeats without mixing epochs', async () => {
    for (const pool of [10, 'all'] as const) {
      const data = rangeDataset(0, 100).shuffle(pool, { seed: 3 }).batch(8).repeat(2);
      const batches = (await all(data)).map(numbers);
      assert.equal(batches.length, 26);
      const [first, second] = [batches.slice(0, 13).flat(), batches.slice(13).flat()];
      assert.deepEqual([sorted(first), sorted(second)], [range(100), range(100)]);
      assert.notDeepEqual(first, second);
      assert.notDeepEqual(first, range(100));
    }
  });

  test('takes and skips: records before shuffle(), positions after it, batches after batch()', async () => {
    assert.deepEqual(await all(rangeDataset(0, 10).skip(2).take(3)), [2, 3, 4]);
    assert.deepEqual(sorted(await all(rangeDataset(0, 100).take(10).shuffle(5))), range(10));
    assert.equal((await all(rangeDataset(0, 100).shuffle(50).take(10))).length, 10);
    assert.deepEqual((await all(rangeDataset(0, 10).batch(2).skip(1).take(2))).map(numbers), [
      [2, 3],
      [4, 5],
    ]);
    assert.equal((await all(rangeDataset(0, 10).batch(2).repeat().take(13))).length, 13);
  });

  test('filters and flattens before batches are made, and keeps the order', async () => {
    const even = rangeDataset(0, 200).filter((each) => each % 2 === 0);
    assert.deepEqual((await all(even.batch(30))).map(numbers), [
      range(30).map((each) => 2 * each),
      range(30, 30).map((each) => 2 * each),
      range(30, 60).map((each) => 2 * each),
      range(10, 90).map((each) => 2 * each),
    ]);
    const twice = rangeDataset(0, 5).flatMap((each) => new Array<number>(each).fill(each));
    assert.deepEqual(await all(twice), [1, 2, 2, 3, 3, 3, 4, 4, 4, 4]);
    assert.deepEqual((await all(twice.batch(4, { dropRemainder: true }))).map(numbers), [
      [1, 2, 2, 3],
      [3, 3, 4, 4],
    ]);
    assert.equal(even.batch(30).size, null);
  });

  test('pads batches, and puts elements of similar length into one batch', async () => {
    const lists = rangeDataset(1, 7).map((each) => ({ list: Float32Array.from(range(each)), each }));
    const [first] = await all(lists.paddedBatch(3, { padding: { list: -1 } }));
    assert.ok(first);
    assert.deepEqual((first.list as Tensor).data, Float32Array.of(0, -1, -1, 0, 1, -1, 0, 1, 2));
    assert.deepEqual((first.list as Tensor).shape, [3, 3]);
    const bucketed = await all(lists.bucketByLength('list', { boundaries: [3, 5], batchSizes: 2 }));
    assert.deepEqual(
      bucketed.map(({ each }) => numbers(each)),
      [
        [1, 2],
        [3, 4],
        [5, 6],
      ],
    );
  });

  test('keeps elements in memory and does not compute them again', async () => {
    let calls = 0;
    const data = rangeDataset(0, 20)
      .map((each) => {
        calls += 1;
        return each + 1;
      })
      .cache()
      .shuffle(5)
      .batch(4)
      .repeat(3);
    const batches = (await all(data)).map(numbers);
    assert.equal(batches.length, 15);
    assert.equal(calls, 20);
    assert.deepEqual(sorted(batches.slice(10).flat()), range(20, 1));
  });

  test('gives functions random numbers that depend on seed, epoch and position alone', async () => {
    const noise = rangeDataset(0, 6).map((_, { random }) => [random(), random()].join());
    const [first, second] = [await all(noise), await all(noise)];
    assert.equal(new Set([...first, ...second]).size, 12);
    assert.deepEqual(
      await all(rangeDataset(0, 6).map((_, { random }) => [random(), random()].join())),
      first,
    );
  });

  test('knows of each batch where it is', async () => {
    const data = rangeDataset(0, 10, { uneven: 'exact' }).batch(4);
    assert.deepEqual((await all(data)).map(batchInfo), [
      { epoch: 0, position: 4, weight: 1, globalSize: 4 },
      { epoch: 0, position: 8, weight: 1, globalSize: 4 },
      { epoch: 0, position: 10, weight: 1, globalSize: 2 },
    ]);
    assert.equal(data.metrics().batches, 3);
    assert.equal(data.metrics().samples, 10);
  });

  test('measures how long the loop has waited, and how busy each stage was', async () => {
    const slow = async (value: unknown) => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      return value;
    };
    const data = rangeDataset(0, 40).map(slow).batch(4);
    await all(data);
    const metrics = data.metrics();
    assert.deepEqual(Object.keys(metrics.busySeconds).sort(), ['batch', 'copy', 'map(slow)']);
    assert.ok((metrics.busySeconds['map(slow)'] ?? 0) > 0.15);
    assert.ok(metrics.starvedShare > 0.5 && metrics.starvedShare <= 1, `${metrics.starvedShare}`);
    assert.ok(metrics.seconds > 0.13);
    assert.equal(Math.round(metrics.samplesPerSecond * metrics.seconds), 40);
    assert.deepEqual([metrics.retries, metrics.aheadLimit], [0, 1]);
  });

  test('can be read with nextSync() where nothing has to be waited for', async () => {
    const iterator = rangeDataset(0, 5).batch(3).iterator();
    assert.throws(() => iterator.nextSync(), { code: 'ERR_HVD_WOULD_BLOCK' });
    await iterator.open();
    assert.deepEqual(numbers(iterator.nextSync().value), [0, 1, 2]);
    assert.deepEqual(numbers(iterator.nextSync().value), [3, 4]);
    assert.equal(iterator.nextSync().done, true);
  });

  test('has one iterator at a time', async () => {
    const data = rangeDataset(0, 5);
    const [old, young] = [data.iterator(), data.iterator()];
    assert.equal((await old.next()).value, 0);
    assert.equal((await young.next()).value, 1);
    await assert.rejects(old.next(), { code: 'ERR_HVD_STALE' });
    await young.return();
    assert.equal((await young.next()).done, true);
  });

  test('wrong calls are rejected', () => {
    const code = 'ERR_HVD_INVALID_ARGUMENT';
    const data = rangeDataset(0, 10);
    assert.throws(() => data.batch(0), { code, message: /size is a whole number from 1, not 0/ });
    assert.throws(() => data.batch(2).shuffle(3), { code, message: /before batch/ });
    assert.throws(() => data.batch(2).batch(3), { code });
    assert.throws(() => data.shuffle(2).shuffle(3), { code });
    assert.throws(() => data.filter(() => true).take(3), { code });
    assert.throws(() => data.map('x' as never), { code, message: /exported\(/ });
    assert.throws(() => rangeDataset(0, 1, { shard: 'any' as never }), { code });
    assert.throws(() => rangeDataset(0, 1, { rank: 1 }), { code, message: /rank and size/ });
    assert.throws(() => rangeDataset(0, 1, { sead: 1 } as never), { code, message: /no option sead/ });
  });

  test('an error of a function says where it happened', async () => {
    const data = rangeDataset(0, 10).map(function scale(each) {
      if (each === 7) throw new Error('too large');
      return each;
    });
    await assert.rejects(all(data.batch(4)), {
      code: 'ERR_HVD_DATA_FUNCTION',
      message: /map\(scale\) failed at position 7 of epoch 0: too large/,
    });
  });
});

describe('the state of a dataset', () => {
  const make = (size: number, rank: number) =>
    rangeDataset(0, 103, { shuffle: { seed: 5, pool: 30 }, rank, size, uneven: 'exact' }).batch(4);

  test('resumes in mid-epoch with another number of ranks, and every sample is taken once', async () => {
    const taken: number[] = [];
    let state: Awaited<ReturnType<Dataset['state']>> | undefined;
    for (const [size, steps] of [
      [1, 3],
      [3, 2],
      [2, 4],
      [5, 100],
    ] as const) {
      const states = [];
      for (let rank = 0; rank < size; rank += 1) {
        const data = make(size, rank);
        if (state !== undefined) data.restore(JSON.parse(JSON.stringify(state)));
        for (const batch of await all(data, steps))
          if (batchInfo(batch)?.weight) taken.push(...numbers(batch));
        states.push(await data.state());
      }
      for (const each of states) assert.deepEqual(each, states[0]);
      [state] = states;
    }
    assert.deepEqual(sorted(taken), range(103));
    assert.deepEqual([state?.epoch, state?.position], [1, 0]);
  });

  test('pipelines that filter resume in mid-epoch, too', async () => {
    const make = () =>
      rangeDataset(0, 100, { shuffle: { seed: 2, pool: 40 } })
        .flatMap((each) => (each % 3 === 0 ? [] : [each, each + 1000]))
        .batch(7);
    const expected = (await all(make())).map(numbers);
    for (let stop = 0; stop <= expected.length; stop += 1) {
      const [before, after] = [make(), make()];
      const first = (await all(before, stop)).map(numbers);
      after.restore(JSON.parse(JSON.stringify(await before.state())));
      const rest = (await all(after)).map(numbers);
      assert.deepEqual([...first, ...rest].flat(), expected.flat());
    }
  });

  test('does not count what was computed ahead, and continues where a loop was left', async () => {
    const data = rangeDataset(0, 20).batch(4).prefetch(3);
    assert.deepEqual((await all(data, 2)).map(numbers), [range(4), range(4, 4)]);
    assert.equal((await data.state()).position, 8);
    assert.deepEqual((await all(data, 1)).map(numbers), [range(4, 8)]);
  });

  test('of another pipeline, or damaged, is rejected with the first difference', async () => {
    const code = 'ERR_HVD_DATA_STATE';
    const data = rangeDataset(0, 20).shuffle(5).batch(4);
    const state = await data.state();
    assert.throws(() => rangeDataset(0, 20).batch(4).restore(state), {
      code,
      message: /call 2 of the pipeline was shuffle and is batch/,
    });
    assert.throws(() => rangeDataset(0, 20).shuffle(5).batch(5).restore(state), {
      code,
      message: /call 3 of the pipeline, batch, has other arguments/,
    });
    assert.throws(() => data.restore({ ...state, position: -1 }), { code, message: /"position" is -1/ });
    assert.throws(() => data.restore({} as never), { code, message: /what state\(\) returned/ });
    rangeDataset(0, 20).shuffle(5).batch(4).prefetch(7).restore(state);
    await assert.rejects(
      rangeDataset(0, 9)
        .filter(() => true)
        .batch(2)
        .take(1)
        .state(),
      {
        code: 'ERR_HVD_UNSUPPORTED',
        message: /take\(\) follows filter/,
      },
    );
  });
});

test('ranks divide the data by files, by records or not at all', async () => {
  const shares = async (options: object) =>
    Promise.all(
      range(2).map((rank) => all(rangeDataset(0, 7, { rank, size: 2, uneven: 'keep', ...options }))),
    );
  assert.deepEqual(await shares({ shard: 'records' }), [
    [0, 2, 4, 6],
    [1, 3, 5],
  ]);
  assert.deepEqual(await shares({ shard: 'none' }), [range(7), range(7)]);
  const lanes = await shares({ shard: 'lanes' });
  assert.deepEqual(sorted(lanes.flat()), range(7));
});
