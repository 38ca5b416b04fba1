import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { decide, type Mode, type Proposal } from './gradient-agreement.ts';

const proposal = (
  present: number[],
  finished: number[] = [],
  modes: Mode[] = ['direct', 'staged'],
): Proposal => ({
  variables: [0, 1, 2, 3].map((place) => ({ name: `v${place}`, shape: [place], dtype: 'float32' })),
  present,
  finished,
  modes,
});

describe('what the ranks decide', () => {
  test('a gradient that any rank has is reduced', () => {
    assert.deepEqual([...decide([proposal([0, 1]), proposal([1, 3])]).order].sort(), [0, 1, 3]);
  });

  test('the order is the one in which rank 0 finishes, and what it does not hear comes last', () => {
    const { order } = decide([proposal([0, 1, 2, 3], [2, 0]), proposal([0, 1, 2, 3], [0, 2])]);
    assert.deepEqual(order, [2, 0, 3, 1]);
  });

  test('gradients travel the best way that all can', () => {
    const best = proposal([0], [], ['overlapped', 'direct', 'staged']);
    assert.equal(decide([best, best]).mode, 'overlapped');
    assert.equal(decide([best, proposal([0])]).mode, 'direct');
    assert.equal(decide([best, proposal([0], [], ['staged'])]).mode, 'staged');
    assert.equal(decide([proposal([0], [], ['staged']), best]).mode, 'staged');
  });
});
