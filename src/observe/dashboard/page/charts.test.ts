// The scale of a chart.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { paddedRange } from './charts.ts';

describe('the range of a chart', () => {
  test('leaves a little room above and below', () => {
    assert.deepEqual(paddedRange(0, 100, false), [-6, 106]);
    assert.deepEqual(paddedRange(10, 100, true), [0, 106]);
  });

  test('shows a value that stays as a flat line, also where an average differs in its last digit', () => {
    for (const [low, high] of [
      [0.61, 0.61],
      [0.61, 0.61 + 2e-16],
    ] as const) {
      const [from, to] = paddedRange(low, high, false);
      assert.ok(from < 0.56 && to > 0.66, `${from} to ${to}`);
    }
    assert.deepEqual(paddedRange(0, 0, false), [-1, 1]);
  });
});
