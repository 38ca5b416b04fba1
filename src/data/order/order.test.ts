import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { blocksOf, blocksOfOffsets } from './blocks.ts';
import { LaneWalk, lanesOfRank } from './lane-walk.ts';
import { chooseLanes, type Lanes, laneLength, laneOf, laneStart } from './lanes.ts';
import { permutation } from './permutation.ts';
import { keyOf, randomFractions } from './random.ts';
import { sliceOf, stepsFrom, type UnevenWindow, windowAt } from './slices.ts';
import { EpochOrder } from './stretches.ts';

const range = (length: number) => Array.from({ length }, (_, each) => each);
const sorted = (list: Iterable<number>) => [...list].sort((a, b) => a - b);

describe('permutation()', () => {
  test('is a bijection for all lengths up to 300', () => {
    for (let length = 0; length <= 300; length += 1) {
      const order = permutation(length, keyOf(7, length));
      assert.deepEqual(sorted(range(length).map((place) => order.at(place))), range(length));
    }
  });

  test('is a bijection where it is computed, just above the longest table', () => {
    const length = 65_537;
    const order = permutation(length, 5);
    const seen = new Uint8Array(length);
    for (let place = 0; place < length; place += 1) seen[order.at(place)] = 1;
    assert.equal(
      seen.every((each) => each === 1),
      true,
    );
  });

  test('of up to 2^40 numbers stays inside and gives no number twice', () => {
    fc.assert(
      fc.property(fc.integer({ min: 65_537, max: 2 ** 40 }), fc.nat(), fc.nat(), (length, key, start) => {
        const order = permutation(length, key);
        const places = range(100).map((each) => (start + each * 7919) % length);
        const found = places.map((place) => order.at(place));
        assert.ok(found.every((each) => Number.isInteger(each) && each >= 0 && each < length));
        assert.equal(new Set(found).size, new Set(places).size);
      }),
      { seed: 1, numRuns: 60 },
    );
  });

  test('every order of four is about as frequent as every other', () => {
    const found = new Map<string, number>();
    for (let epoch = 0; epoch < 2400; epoch += 1) {
      const order = permutation(4, keyOf(1, epoch));
      const text = range(4)
        .map((place) => order.at(place))
        .join();
      found.set(text, (found.get(text) ?? 0) + 1);
    }
    assert.equal(found.size, 24);
    // 100 expected each, standard deviation 10; the seed is fixed, so this cannot fail by chance.
    for (const count of found.values()) assert.ok(count > 60 && count < 140, String(count));
  });

  test('a computed one does not follow its input', () => {
    const length = 100_000;
    const order = permutation(length, 3);
    const numbers = range(length).map((place) => order.at(place));
    assert.ok(Math.abs(correlation(numbers.slice(1), numbers.slice(0, -1))) < 0.02);
    assert.ok(Math.abs(correlation(numbers, range(length))) < 0.02);
  });
});

test('random fractions are from 0 to 1 and depend on every part of the key', () => {
  const of = (...parts: number[]) => randomFractions(keyOf(...parts))();
  const found = [of(1, 2, 3), of(1, 2, 4), of(1, 3, 2), of(2 ** 40, 2, 3), of(0, 2, 3), of(1, 2)];
  assert.equal(new Set(found).size, found.length);
  const next = randomFractions(9);
  const many = range(10_000).map(next);
  assert.ok(many.every((each) => each >= 0 && each < 1));
  assert.ok(Math.abs(many.reduce((sum, each) => sum + each, 0) / 10_000 - 0.5) < 0.02);
});

describe('blocks and lanes', () => {
  test('blocks are runs of whole records with enough bytes', () => {
    assert.deepEqual(blocksOfOffsets([0, 4, 8, 12, 16, 18], 8), [2, 2, 1]);
    assert.deepEqual(blocksOfOffsets([0, 100, 101], 8), [1, 1]);
    assert.deepEqual(blocksOfOffsets([0], 8), []);
    assert.deepEqual(blocksOf([{ records: 3, blocks: [2, 1] }, { records: 0 }, { records: 4 }]), [
      { first: 0, length: 2 },
      { first: 2, length: 1 },
      { first: 3, length: 4 },
    ]);
  });

  test('lanes cover all places, one after the other', () => {
    for (const [count, length] of [
      [1, 10],
      [4, 10],
      [7, 3],
      [64, 1000],
    ] as const) {
      const lanes: Lanes = { count, length };
      let next = 0;
      for (let lane = 0; lane < count; lane += 1) {
        assert.equal(laneStart(lane, lanes), next);
        next += laneLength(lane, lanes);
      }
      assert.equal(next, length);
    }
  });

  test('the number of lanes divides the window, if a number from 16 to 64 does', () => {
    assert.deepEqual([128, 96, 32, 100, 17, 67, 8, 1].map(chooseLanes), [64, 48, 32, 50, 17, 64, 64, 64]);
  });
});

/** Files, and how their records are ordered. */
const orders = fc.record({
  files: fc.array(fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 6 }), { maxLength: 5 }),
  seed: fc.integer(),
  epoch: fc.nat(5),
  lanes: fc.integer({ min: 1, max: 70 }),
  pool: fc.oneof(fc.constant(undefined), fc.constant('all' as const), fc.integer({ min: 1, max: 500 })),
});

interface Ordering {
  readonly files: readonly (readonly number[])[];
  readonly seed: number;
  readonly epoch: number;
  readonly lanes: number;
  readonly pool: number | 'all' | undefined;
}

const orderOf = ({ files, ...options }: Ordering) =>
  new EpochOrder({
    ...options,
    blocks: blocksOf(files.map((blocks) => ({ records: blocks.reduce((a, b) => a + b, 0), blocks }))),
  });

describe('the order of an epoch', () => {
  test('has every record at exactly one position, and each stretch has its records', () => {
    fc.assert(
      fc.property(orders, (options) => {
        const order = orderOf(options);
        const found = range(order.length).map((position) => order.at(position));
        assert.deepEqual(sorted(found.map(({ record }) => record)), range(order.length));
        const byStretch = new Map<number, number[]>();
        for (const { record, stretch } of found) {
          byStretch.set(stretch, [...(byStretch.get(stretch) ?? []), record]);
        }
        for (const [id, records] of byStretch) {
          const { runs, length } = order.stretch(id);
          const read = runs.flatMap(({ first, length: count }) => range(count).map((each) => first + each));
          assert.deepEqual(sorted(read), sorted(records));
          assert.equal(length, records.length);
        }
      }),
      { seed: 2, numRuns: 150 },
    );
  });

  test('is that of the files without shuffle, whatever the lanes are', () => {
    const order = orderOf({ files: [[5, 5], [7]], seed: 3, epoch: 2, lanes: 4, pool: undefined });
    assert.deepEqual(
      range(17).map((position) => order.at(position).record),
      range(17),
    );
  });

  test('is another one in each epoch and for each seed, and the same again for the same', () => {
    const options = { files: [[50, 50], [100]], seed: 3, epoch: 2, lanes: 4, pool: 40 };
    const records = (change: Partial<typeof options>) => {
      const order = orderOf({ ...options, ...change });
      return range(200).map((position) => order.at(position).record);
    };
    assert.deepEqual(records({}), records({}));
    assert.notDeepEqual(records({}), records({ epoch: 3 }));
    assert.notDeepEqual(records({}), records({ seed: 4 }));
  });

  test('mixes nearly as well as a true permutation with a pool and 64 lanes', () => {
    const files = range(40).map(() => [500, 500]);
    const order = orderOf({ files, seed: 1, epoch: 0, lanes: 64, pool: 10_000 });
    const records = range(order.length).map((position) => order.at(position).record);
    assert.ok(Math.abs(correlation(records.slice(1), records.slice(0, -1))) < 0.05);
    // Neighbours come from far apart: a third of the data set on average, as for a permutation.
    const spread = records.slice(1).map((record, place) => Math.abs(record - (records[place] as number)));
    const mean = spread.reduce((a, b) => a + b, 0) / spread.length / order.length;
    assert.ok(mean > 0.25 && mean < 0.42, String(mean));
  });
});

describe('slices', () => {
  const dealings = fc.record({
    length: fc.integer({ min: 1, max: 400 }),
    lanes: fc.integer({ min: 1, max: 70 }),
    uneven: fc.constantFrom<UnevenWindow>('pad', 'keep', 'exact'),
    phases: fc.array(
      fc.record({
        size: fc.integer({ min: 1, max: 9 }),
        steps: fc.nat(6),
        globalBatchSize: fc.integer({ min: 1, max: 90 }),
      }),
      { maxLength: 6 },
    ),
  });

  test('for any sequence of ranks, steps and restores, every position is taken exactly once', () => {
    fc.assert(
      fc.property(dealings, ({ length, lanes: count, uneven, phases }) => {
        const lanes: Lanes = { count, length };
        const taken: number[] = [];
        let position = 0;
        for (const { size, steps, globalBatchSize } of [
          ...phases,
          { size: 3, steps: 1000, globalBatchSize: 50 },
        ]) {
          const dealing = { length, globalBatchSize, size, uneven };
          assert.ok(stepsFrom(position, dealing) >= 0);
          for (let step = 0; step < steps; step += 1) {
            const window = windowAt(position, dealing);
            if (window === undefined) break;
            const shares = range(size).map((rank) => sliceOf(window, dealing, lanes, rank));
            const inside = new Set<number>();
            for (const { places, weight } of shares) {
              const own = weight === 0 ? [] : places;
              for (const place of own) {
                // Padding repeats positions; everything else is there once.
                if (!inside.has(place) && place >= window.start && place < window.end) taken.push(place);
                else assert.equal(uneven, 'pad');
                inside.add(place);
              }
            }
            const weights = shares.reduce((sum, share) => sum + share.weight, 0);
            assert.ok(Math.abs(weights - size) < 1e-9);
            if (uneven === 'pad') assert.equal(new Set(shares.map((share) => share.places.length)).size, 1);
            position = window.end;
          }
        }
        assert.deepEqual(sorted(taken), range(length));
      }),
      { seed: 3, numRuns: 300 },
    );
  });

  test('a rank keeps to its lanes where their number divides the window', () => {
    for (const [size, count, globalBatchSize] of [
      [4, 64, 128],
      [3, 48, 96],
      [5, 50, 100],
      [7, 64, 448],
    ] as const) {
      const length = 10_000;
      const dealing = { length, globalBatchSize, size, uneven: 'pad' } as const;
      const lanes = { count, length };
      for (let rank = 0; rank < size; rank += 1) {
        const used = new Set<number>();
        for (let position = 0; position + globalBatchSize <= length; position += globalBatchSize) {
          const window = windowAt(position, dealing);
          assert.ok(window);
          for (const place of sliceOf(window, dealing, lanes, rank).places) used.add(laneOf(place, lanes));
        }
        assert.ok(used.size <= Math.ceil(count / size) + 1, `${used.size} lanes of ${count}`);
      }
    }
  });

  test('one rank takes the window in the order of positions where there is one lane', () => {
    const dealing = { length: 10, globalBatchSize: 4, size: 1, uneven: 'pad' } as const;
    assert.deepEqual(
      sliceOf({ start: 4, length: 4, end: 8 }, dealing, { count: 1, length: 10 }, 0).places,
      [4, 5, 6, 7],
    );
  });
});

describe('walks along lanes', () => {
  test('ranks that walk at their own pace, and change in number, take every position once', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 300 }),
        fc.integer({ min: 9, max: 64 }),
        fc.array(fc.array(fc.nat(40), { minLength: 1, maxLength: 9 }), { maxLength: 5 }),
        (length, count, phases) => {
          const lanes = { count, length };
          let done = range(count).map(() => 0);
          const taken: number[] = [];
          for (const paces of [...phases, [length, length]]) {
            const after = [...done];
            for (const [rank, pace] of paces.entries()) {
              const walk = new LaneWalk(lanes, lanesOfRank(count, rank, paces.length), done);
              for (let step = 0; step < pace; step += 1) {
                const position = walk.next();
                if (position === undefined) break;
                taken.push(position);
                after[laneOf(position, lanes)] = Math.floor(position / count) + 1;
              }
            }
            done = after;
          }
          assert.deepEqual(sorted(taken), range(length));
        },
      ),
      { seed: 4, numRuns: 150 },
    );
  });

  test('one rank alone sees the order of positions', () => {
    const walk = new LaneWalk({ count: 4, length: 10 }, lanesOfRank(4, 0, 1), [0, 0, 0, 0]);
    assert.deepEqual(
      range(11).map(() => walk.next()),
      [...range(10), undefined],
    );
  });
});

function correlation(a: readonly number[], b: readonly number[]): number {
  const mean = (list: readonly number[]) => list.reduce((sum, each) => sum + each, 0) / list.length;
  const [meanA, meanB] = [mean(a), mean(b)];
  let [both, squaresA, squaresB] = [0, 0, 0];
  for (const [place, each] of a.entries()) {
    const [x, y] = [each - meanA, (b[place] as number) - meanB];
    both += x * y;
    squaresA += x * x;
    squaresB += y * y;
  }
  return both / Math.sqrt(squaresA * squaresB);
}
