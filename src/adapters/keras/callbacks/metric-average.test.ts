import assert from 'node:assert/strict';
import { test } from 'node:test';
import { averageMetrics } from './metric-average.ts';

test('every metric is the mean over ranks, sorted by name', () => {
  const averages = averageMetrics([
    { loss: 1, acc: 0.5 },
    { acc: 0.25, loss: 3 },
  ]);
  assert.deepEqual(averages, { acc: 0.375, loss: 2 });
  assert.deepEqual(Object.keys(averages), ['acc', 'loss']);
});

test('NaN on one rank is NaN for all', () => {
  assert.ok(Number.isNaN(averageMetrics([{ loss: 1 }, { loss: Number.NaN }])['loss']));
});

test('a metric that a rank does not have is an error that names both', () => {
  const ofRanks = [{ loss: 1, val_loss: 2 }, { loss: 1 }, { loss: 1, val_loss: 3 }];
  assert.throws(() => averageMetrics(ofRanks), {
    code: 'ERR_HVD_MISMATCH',
    message: /rank 1 has no metric "val_loss" \(ranks 0, 2 have\)/,
  });
});
