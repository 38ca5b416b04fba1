import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { compressible, reduceTogether } from '../../../test/support/reduce-together.ts';
import { plainKernels } from './kernels.ts';
import { countOf, largest, topk } from './top-k.ts';

/** The definition: sort by magnitude, the first of equal ones first. */
function largestBySorting(data: Float32Array, count: number): number[] {
  const magnitude = (i: number) => {
    const value = Math.abs(data[i] as number);
    return Number.isNaN(value) ? Number.POSITIVE_INFINITY : value;
  };
  return [...data.keys()]
    .sort((a, b) => magnitude(b) - magnitude(a) || a - b)
    .slice(0, count)
    .sort((a, b) => a - b);
}

describe('the largest values', () => {
  test('are those that sorting finds, ties going to the first', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.float({ noNaN: true }), fc.constantFrom(0, -0, 1, -1, 2)), {
          minLength: 1,
          maxLength: 200,
        }),
        fc.double({ min: 0.001, max: 1, noNaN: true }),
        (numbers, ratio) => {
          const data = Float32Array.from(numbers);
          const count = countOf(data.length, ratio);
          const { places, values } = largest(data, count, plainKernels);
          assert.deepEqual([...places], largestBySorting(data, count));
          assert.deepEqual(
            [...values],
            [...places].map((place) => data[place]),
          );
        },
      ),
    );
  });

  test('include every NaN first', () => {
    const { places } = largest(Float32Array.of(5, Number.NaN, Number.POSITIVE_INFINITY, 1), 2, plainKernels);
    assert.deepEqual([...places], [1, 2]);
  });

  test('are ⌈ratio·n⌉, and at least one', () => {
    assert.equal(countOf(1000, 0.01), 10);
    assert.equal(countOf(1001, 0.01), 11);
    assert.equal(countOf(5, 1e-9), 1);
    assert.equal(countOf(5, 1), 5);
  });
});

describe('Compression.topk', () => {
  const few = { minElements: 0 };

  test('sums what each member sends, in the same bits for all', () => {
    const members = [
      [compressible([0, 5, 1, 0, 0, 0, 0, -7, 0, 0, 0, 0])],
      [compressible([9, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0])],
    ];
    reduceTogether(topk(2 / 12, few), members);
    for (const [tensor] of members)
      assert.deepEqual([...(tensor?.data ?? [])], [9, 10, 0, 0, 0, 0, 0, -7, 0, 0, 0, 0]);
  });

  test('loses nothing with error feedback, and every value arrives in the end', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 20, max: 60 }),
        fc.nat(1000),
        (size, n, seed) => {
          const compressor = topk(0.1, few);
          const residuals = Array.from({ length: size }, () => new Float32Array(n));
          const given = new Float64Array(n);
          const sent = new Float64Array(n);
          const step = (valueAt: (rank: number, i: number) => number) => {
            const members = residuals.map((residual, rank) => {
              const values = Float32Array.from({ length: n }, (_, i) => valueAt(rank, i));
              values.forEach((value, i) => {
                (given[i] as number) += value;
              });
              return [compressible(values, [n], residual)];
            });
            reduceTogether(compressor, members);
            for (const [tensor] of members) assert.deepEqual(tensor?.data, members[0]?.[0]?.data);
            members[0]?.[0]?.data.forEach((value, i) => {
              (sent[i] as number) += value;
            });
          };
          for (let t = 0; t < 5; t++) step((rank, i) => Math.sin(seed + i * 7 + rank * 3 + t));
          for (let i = 0; i < n; i++) {
            const left = residuals.reduce((sum, residual) => sum + (residual[i] as number), 0);
            assert.ok(Math.abs((given[i] as number) - (sent[i] as number) - left) < 1e-4);
          }
          for (let t = 0; t < 11; t++) step(() => 0);
          for (let i = 0; i < n; i++) assert.ok(Math.abs((given[i] as number) - (sent[i] as number)) < 1e-4);
        },
      ),
      { numRuns: 20 },
    );
  });

  test('sends small tensors whole, and those that would not become smaller', () => {
    const values = Float32Array.from({ length: 1000 }, (_, i) => i - 500.5);
    for (const compressor of [topk(0.01), topk(0.5, few), topk(1, few)]) {
      const members = [0, 1].map(() => [
        compressible(values, [1000], new Float32Array(1000)),
        compressible([]),
      ]);
      reduceTogether(compressor, members);
      assert.deepEqual(
        members[0]?.[0]?.data,
        values.map((value) => 2 * value),
        compressor.name,
      );
      assert.deepEqual(members[0]?.[0]?.residual, new Float32Array(1000));
    }
  });

  test('receives 8 bytes for each value that others send', () => {
    const members = [0, 1, 2].map(() => [compressible(new Float32Array(10_000).fill(1))]);
    assert.deepEqual(reduceTogether(topk(0.01), members), [1600, 1600, 1600]);
  });

  test('shows what is not finite at once and forgets it then', () => {
    const n = 40;
    const residual = new Float32Array(n);
    const step = (values: Float32Array) => {
      const members = [[compressible(values, [n], residual)]];
      reduceTogether(topk(0.1, few), members);
      return members[0]?.[0]?.data as Float32Array;
    };
    assert.ok(step(new Float32Array(n).fill(Number.NaN)).some(Number.isNaN));
    for (let t = 0; t < 10; t++) assert.ok(step(new Float32Array(n).fill(1)).every(Number.isFinite));
  });

  test('rejects invalid ratios', () => {
    for (const ratio of [0, -0.1, 1.01, Number.NaN, Number.POSITIVE_INFINITY, '0.1' as unknown as number]) {
      assert.throws(() => topk(ratio), {
        code: 'ERR_HVD_INVALID_ARGUMENT',
        message: /above 0 and at most 1/,
      });
    }
    assert.throws(() => topk(0.1, { minElements: -1 }), { code: 'ERR_HVD_INVALID_ARGUMENT' });
  });
});
