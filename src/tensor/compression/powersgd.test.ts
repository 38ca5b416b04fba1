import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { compressible, reduceTogether } from '../../../test/support/reduce-together.ts';
import { orthonormalize, powersgd, reseed } from './powersgd.ts';

const product = (p: Float32Array, rows: number, a: number, b: number) => {
  let sum = 0;
  for (let i = 0; i < rows; i++) sum += (p[a * rows + i] as number) * (p[b * rows + i] as number);
  return sum;
};

describe('orthonormalize', () => {
  test('makes columns of length 1 at right angles', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 4, max: 30 }),
        fc.integer({ min: 1, max: 4 }),
        fc.nat(),
        (rows, rank, seed) => {
          const p = Float32Array.from({ length: rows * rank }, (_, i) => Math.sin((seed % 1000) + i * i));
          orthonormalize(p, rows, rank);
          for (let a = 0; a < rank; a++) {
            for (let b = 0; b <= a; b++) {
              assert.ok(Math.abs(product(p, rows, a, b) - (a === b ? 1 : 0)) < 1e-5);
            }
          }
        },
      ),
    );
  });

  test('makes zero of a column that depends on the others, and of zeros', () => {
    const p = Float32Array.of(1, 1, 1, 2, 2, 2, 0, 0, 0);
    orthonormalize(p, 3, 3);
    assert.deepEqual([...p.subarray(3)], [0, 0, 0, 0, 0, 0]);
  });
});

test('columns of zeros begin anew, others stay', () => {
  const q = Float32Array.of(0, 0, 3, 4);
  reseed(q, 2, 2);
  assert.deepEqual([q[2], q[3]], [3, 4]);
  assert.ok(q[0] !== 0 && Math.abs(q[0] as number) <= 1);
});

describe('Compression.powersgd', () => {
  const rows = 24;
  const columns = 16;
  const n = rows * columns;
  const lowRank = (seed: number) =>
    Float32Array.from({ length: n }, (_, i) => {
      const [row, column] = [Math.floor(i / columns), i % columns];
      return Math.sin(seed + row) * Math.cos(column) + Math.cos(2 * row) * Math.sin(3 * column);
    });

  // sin(s + r) for three values of s spans two dimensions, and cos(2r) is the third.
  for (const thickness of [3, 4, 5, 8, 9])
    test(`with rank ${thickness} sends a matrix of rank 3 exactly`, () => {
      const members = [0, 1, 2].map((rank) => [compressible(lowRank(rank), [4, 6, columns])]);
      const sum = Float32Array.from({ length: n }, (_, i) =>
        [0, 1, 2].reduce((total, rank) => total + (lowRank(rank)[i] as number), 0),
      );
      const compressor = powersgd(thickness, { minCompressionRate: 1 });
      reduceTogether(compressor, members);
      for (const [tensor] of members) {
        assert.deepEqual(tensor?.data, members[0]?.[0]?.data);
        tensor?.data.forEach((value, i) => {
          assert.ok(Math.abs(value - (sum[i] as number)) < 1e-3);
        });
      }
    });

  test('loses nothing with error feedback, and what is asked again and again arrives', () => {
    const size = 2;
    const compressor = powersgd(2);
    const residuals = Array.from({ length: size }, () => new Float32Array(n));
    const shared = Array.from({ length: size }, () => new Map<string, Float32Array>());
    const gradients = [0, 1].map((rank) =>
      Float32Array.from({ length: n }, (_, i) => Math.sin(i * i + rank)),
    );
    const wanted = Float32Array.from(
      { length: n },
      (_, i) => (gradients[0]?.[i] as number) + (gradients[1]?.[i] as number),
    );
    const sent = new Float64Array(n);
    const steps = 60;
    for (let t = 0; t < steps; t++) {
      const members = residuals.map((residual, rank) => [
        compressible(gradients[rank] as Float32Array, [rows, columns], residual, shared[rank]),
      ]);
      reduceTogether(compressor, members);
      members[0]?.[0]?.data.forEach((value, i) => {
        (sent[i] as number) += value;
      });
      assert.deepEqual(members[0]?.[0]?.data, members[1]?.[0]?.data);
      assert.deepEqual(shared[0], shared[1]);
    }
    let error = 0;
    let whole = 0;
    for (let i = 0; i < n; i++) {
      const left = residuals.reduce((sum, residual) => sum + (residual[i] as number), 0);
      assert.ok(Math.abs(steps * (wanted[i] as number) - (sent[i] as number) - left) < 1e-2);
      error += ((sent[i] as number) / steps - (wanted[i] as number)) ** 2;
      whole += (wanted[i] as number) ** 2;
    }
    assert.ok(error < 0.05 * whole, `mean of ${steps} steps is off by ${Math.sqrt(error / whole)}`);
  });

  test('sends vectors, empty tensors and small matrices whole, in the same step', () => {
    const members = [0, 1].map(() => [
      compressible([1, 2, 3]),
      compressible([], [0, 5]),
      compressible([1, 2, 3, 4], [2, 2]),
      compressible([7], []),
      compressible(lowRank(0), [rows, columns]),
    ]);
    reduceTogether(powersgd(2), members);
    assert.deepEqual(
      members[1]?.slice(0, 4).map(({ data }) => [...data]),
      [[2, 4, 6], [], [2, 4, 6, 8], [14]],
    );
  });

  test('moves rank·(rows + columns) numbers twice, as an allreduce does', () => {
    const members = [0, 1].map(() => [compressible(lowRank(0), [rows, columns])]);
    assert.deepEqual(reduceTogether(powersgd(2), members), [
      4 * 2 * (rows + columns),
      4 * 2 * (rows + columns),
    ]);
  });

  test('shows what is not finite, and goes on from where it was', () => {
    const residual = new Float32Array(n);
    const shared = new Map<string, Float32Array>();
    const compressor = powersgd(2);
    const step = (values: Float32Array) => {
      const members = [[compressible(values, [rows, columns], residual, shared)]];
      reduceTogether(compressor, members);
      return members[0]?.[0]?.data as Float32Array;
    };
    step(Float32Array.from({ length: n }, (_, i) => Math.sin(i * i)));
    const [left, q] = [residual.slice(), shared.get('q')?.slice()];
    const bad = lowRank(0);
    bad[17] = Number.POSITIVE_INFINITY;
    assert.ok(step(bad).every(Number.isNaN));
    assert.deepEqual(residual, left);
    assert.deepEqual(shared.get('q'), q);
    assert.ok(step(lowRank(1)).every(Number.isFinite));
  });

  test('a matrix of zeros stays one, and does not end what follows', () => {
    const shared = new Map<string, Float32Array>();
    const zeros = [[compressible(new Float32Array(n), [rows, columns], undefined, shared)]];
    reduceTogether(powersgd(2), zeros);
    assert.deepEqual(zeros[0]?.[0]?.data, new Float32Array(n));
    const next = [[compressible(lowRank(0), [rows, columns], undefined, shared)]];
    reduceTogether(powersgd(2), next);
    assert.ok(next[0]?.[0]?.data.some((value) => value !== 0));
  });

  test('rejects invalid ranks and rates', () => {
    for (const rank of [0, -1, 1.5, Number.NaN, '4' as unknown as number]) {
      assert.throws(() => powersgd(rank), { code: 'ERR_HVD_INVALID_ARGUMENT' });
    }
    assert.throws(() => powersgd(1, { minCompressionRate: 0.5 }), { code: 'ERR_HVD_INVALID_ARGUMENT' });
  });
});
