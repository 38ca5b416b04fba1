import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { shareOf } from './error-feedback.ts';

const sumOf = (residuals: readonly Float32Array[], i: number) =>
  residuals.reduce((sum, residual) => sum + (residual[i] as number), 0);

describe('what was kept back comes back', () => {
  const saved = fc.array(
    fc
      .array(fc.float({ min: -100, max: 100, noNaN: true }), { minLength: 3, maxLength: 3 })
      .map((list) => Float32Array.from(list)),
    { minLength: 1, maxLength: 6 },
  );

  test('on as many ranks, each gets its own', () => {
    fc.assert(
      fc.property(saved, fc.boolean(), (residuals, isMean) => {
        residuals.forEach((residual, rank) => {
          const share = shareOf(residuals, rank, residuals.length, isMean);
          assert.deepEqual(share, residual);
          assert.notEqual(share, residual, 'it is a copy');
        });
      }),
    );
  });

  test('on another number of ranks, their sum stays for Sum, and their mean for Average', () => {
    fc.assert(
      fc.property(saved, fc.integer({ min: 1, max: 6 }), fc.boolean(), (residuals, size, isMean) => {
        const shares = Array.from({ length: size }, (_, rank) => shareOf(residuals, rank, size, isMean));
        for (let i = 0; i < 3; i++) {
          const [before, after] = isMean
            ? [sumOf(residuals, i) / residuals.length, sumOf(shares, i) / size]
            : [sumOf(residuals, i), sumOf(shares, i)];
          assert.ok(Math.abs(before - after) <= 1e-3, `${before} became ${after}`);
        }
      }),
    );
  });
});
