import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Dealing, type ElasticUneven, shareOf, stepsFrom, windowAt } from './deal.ts';

const range = (length: number) => Array.from({ length }, (_, place) => place);
const sizes = [1, 2, 3, 4, 5];

interface Step {
  readonly dealing: Dealing;
  readonly shares: readonly (readonly number[])[];
  readonly weights: readonly number[];
  readonly windowLength: number;
  readonly isLast: boolean;
}

/** One epoch, with another number of ranks in each step. */
function epochOf(
  length: number,
  uneven: ElasticUneven,
  sizeAt: (step: number) => number,
  batchAt: (size: number) => number,
): Step[] {
  const steps: Step[] = [];
  for (let position = 0; ; ) {
    const size = sizeAt(steps.length);
    const dealing = { length, uneven, size, globalBatchSize: batchAt(size) };
    const window = windowAt(position, dealing);
    assert.equal(stepsFrom(position, dealing) > 0, window !== undefined);
    if (window === undefined) return steps;
    const shares = range(size).map((rank) => shareOf(window, dealing, rank));
    steps.push({
      dealing,
      shares: shares.map(({ places }) => places),
      weights: shares.map(({ weight }) => weight),
      windowLength: window.length,
      isLast: window.end === length,
    });
    assert.ok(window.end > position);
    position = window.end;
  }
}

/** Runs `check` for every length up to 40, every pair of sizes that alternate, and some sequences of all of them. */
function forAll(uneven: ElasticUneven, check: (steps: readonly Step[], length: number) => void): void {
  const sequences = [
    ...sizes.flatMap((a) => sizes.map((b) => (step: number) => (step % 2 === 0 ? a : b))),
    (step: number) => (step % 5) + 1,
    (step: number) => 5 - (step % 5),
    (step: number) => ((step * step * 7 + 3) % 5) + 1,
  ];
  const batches = [(size: number) => size, (size: number) => 3 * size, () => 4, () => 7];
  for (const length of range(41)) {
    for (const sizeAt of sequences) {
      for (const batchAt of batches) check(epochOf(length, uneven, sizeAt, batchAt), length);
    }
  }
}

const sorted = (places: readonly number[]) => [...places].sort((a, b) => a - b);
/** Places that count: a rank that only takes part has weight 0. */
const used = ({ shares, weights }: Step) =>
  shares.flatMap((places, rank) => (weights[rank] === 0 ? [] : places));

describe('dealing', () => {
  for (const uneven of ['exact', 'keep'] as const) {
    test(`'${uneven}': every sample exactly once, whatever the numbers of ranks`, () => {
      forAll(uneven, (steps, length) => {
        assert.deepEqual(sorted(steps.flatMap(used)), range(length));
      });
    });
  }

  test("'pad': every sample, each once but for those that fill up a window; all ranks have equally many", () => {
    forAll('pad', (steps, length) => {
      assert.deepEqual(sorted([...new Set(steps.flatMap(used))]), range(length));
      for (const { shares, dealing, windowLength } of steps) {
        const counts = new Set(shares.map(({ length }) => length));
        assert.deepEqual([...counts], [Math.ceil(windowLength / dealing.size)]);
      }
    });
  });

  test("'pad' pads only the last window if the ranks divide the batch", () => {
    const steps = epochOf(
      10,
      'pad',
      () => 2,
      () => 4,
    );
    assert.deepEqual(
      steps.map(({ shares }) => shares),
      [
        [
          [0, 2],
          [1, 3],
        ],
        [
          [4, 6],
          [5, 7],
        ],
        [[8], [9]],
      ],
    );
    const [last] = epochOf(
      3,
      'pad',
      () => 2,
      () => 4,
    );
    assert.deepEqual(last?.shares, [
      [0, 2],
      [1, 0],
    ]);
  });

  test("'drop': no sample twice; fewer are left out than there are ranks", () => {
    forAll('drop', (steps, length) => {
      const all = steps.flatMap(used);
      assert.equal(new Set(all).size, all.length);
      assert.ok(length - all.length < 5);
      const last = steps.at(-1);
      if (last !== undefined && last.windowLength < last.dealing.globalBatchSize) {
        assert.equal(new Set(last.shares.map(({ length }) => length)).size, 1);
      }
    });
  });

  test('the average of weighted means is the mean over the window', () => {
    for (const uneven of ['pad', 'drop', 'keep', 'exact'] as const) {
      forAll(uneven, (steps) => {
        for (const step of steps) {
          const { shares, weights, dealing } = step;
          const means = shares.map(
            (places) => places.reduce((sum, place) => sum + place, 0) / Math.max(1, places.length),
          );
          const average =
            means.reduce((sum, mean, rank) => sum + mean * (weights[rank] as number), 0) / dealing.size;
          const all = used(step);
          const expected = all.reduce((sum, place) => sum + place, 0) / all.length;
          assert.ok(Math.abs(average - expected) < 1e-9);
        }
      });
    }
  });

  test("a rank without a sample gets one with weight 0, or an empty share with 'keep'", () => {
    const dealing = { length: 2, globalBatchSize: 2, size: 3 };
    const window = { start: 0, length: 2, end: 2 };
    assert.deepEqual(shareOf(window, { ...dealing, uneven: 'exact' }, 2), { places: [0], weight: 0 });
    assert.deepEqual(shareOf(window, { ...dealing, uneven: 'keep' }, 2), { places: [], weight: 0 });
    assert.deepEqual(shareOf(window, { ...dealing, uneven: 'exact' }, 0), { places: [0], weight: 1.5 });
  });

  test('stepsFrom() counts what windowAt() gives', () => {
    for (const uneven of ['pad', 'drop', 'keep', 'exact'] as const) {
      for (const length of range(41)) {
        for (const size of sizes) {
          for (const globalBatchSize of [1, 4, 7]) {
            const dealing = { length, size, uneven, globalBatchSize };
            let steps = 0;
            for (
              let window = windowAt(0, dealing);
              window !== undefined;
              window = windowAt(window.end, dealing)
            )
              steps += 1;
            assert.equal(stepsFrom(0, dealing), steps);
          }
        }
      }
    }
  });
});
