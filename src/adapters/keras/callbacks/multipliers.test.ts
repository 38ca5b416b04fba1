import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { correctedMomentum, exponentialMultiplier, warmupMultiplier } from './multipliers.ts';

describe('warm-up', () => {
  for (const ranks of [1, 2, 3, 4, 7, 8, 16, 100, 1024]) {
    for (const [warmupEpochs, steps] of [
      [5, 100],
      [1, 1],
      [3, 7],
      [0.5, 10],
    ] as const) {
      test(`${ranks} ranks, ${warmupEpochs} epochs of ${steps} steps: from 1/ranks to 1 in equal steps`, () => {
        const multiplier = warmupMultiplier(ranks, warmupEpochs, steps);
        const batches = Math.round(warmupEpochs * steps);
        for (let batch = 0; batch < batches; batch += 1) {
          // A straight line from 1/ranks, before the first batch, to 1 at the last.
          const expected = 1 / ranks + ((1 - 1 / ranks) * (batch + 1)) / batches;
          assert.ok(Math.abs(multiplier(batch / steps) - expected) < 1e-12);
        }
      });
    }
  }

  test('two ranks, two epochs of two steps, by hand', () => {
    const multiplier = warmupMultiplier(2, 2, 2);
    assert.deepEqual(
      [0, 0.5, 1, 1.5].map((epoch) => multiplier(epoch)),
      [0.625, 0.75, 0.875, 1],
    );
  });
});

test('a constant multiplier decays exponentially, from 1 at its first epoch', () => {
  const multiplier = exponentialMultiplier(0.1, 30);
  assert.equal(multiplier(30), 1);
  assert.equal(multiplier(31), 0.1);
  assert.equal(multiplier(32), 0.1 ** 2);
  assert.ok(Math.abs(multiplier(30.5) - Math.sqrt(0.1)) < 1e-15);
});

test('momentum is corrected by the ratio of new and old learning rate', () => {
  assert.equal(correctedMomentum(0.75, 0.5, 0.25), 1.5);
  assert.ok(Math.abs(correctedMomentum(0.9, 0.01, 0.1) - 0.09) < 1e-15);
});
