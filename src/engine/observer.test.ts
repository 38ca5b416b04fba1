import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ObservedOperation, Observers, type OperationObserver } from './observer.ts';

function observersOf(...list: OperationObserver[]) {
  const warnings: string[] = [];
  const observers = new Observers({ write: (_level, text) => void warnings.push(text), tell() {} });
  observers.attach(...list);
  return { observers, warnings };
}

describe('observers', () => {
  test('are called in their order, those that want to hear of it', () => {
    const heard: string[] = [];
    const { observers } = observersOf(
      { name: 'first', submitted: ({ sequence }) => void heard.push(`first ${sequence}`) },
      { name: 'deaf' },
      { name: 'second', submitted: ({ sequence }) => void heard.push(`second ${sequence}`) },
    );
    observers.submitted(new ObservedOperation());
    observers.beforeQuick(new ObservedOperation());
    observers.submitted(new ObservedOperation());
    assert.deepEqual(heard, ['first 1', 'second 1', 'first 3', 'second 3']);
  });

  test('that throw are off from then on, with one warning; the others go on', () => {
    let heard = 0;
    const broken = () => {
      throw new Error('disk full');
    };
    const { observers, warnings } = observersOf(
      { name: 'the diary', settled: broken, afterQuick: broken, step: broken },
      { name: 'another', settled: () => void heard++, afterQuick: () => void heard++ },
    );
    const operation = new ObservedOperation();
    observers.settled(operation);
    assert.equal(heard, 1);
    for (let i = 0; i < 3; i++) observers.afterQuick(operation);
    observers.settled(operation);
    assert.equal(heard, 5);
    assert.deepEqual(warnings, ['the diary failed and is off from here on: Error: disk full']);
  });

  test('of quick operations that throw are off as well', () => {
    const heard: string[] = [];
    const { observers, warnings } = observersOf(
      { name: 'one', beforeQuick: () => void heard.push('one') },
      {
        name: 'two',
        beforeQuick() {
          throw new Error('no');
        },
      },
    );
    observers.beforeQuick(new ObservedOperation());
    observers.beforeQuick(new ObservedOperation());
    assert.deepEqual(heard, ['one', 'one']);
    assert.deepEqual(warnings, ['two failed and is off from here on: Error: no']);
  });
});

describe('an observed operation', () => {
  test('is described by what the ranks agree on', () => {
    const description = {
      key: '#7',
      kind: 'allreduce',
      dtypes: ['float32', 'float16'],
      shapes: [[2, 3], [5]],
      isGrouped: true,
      op: 'Sum',
      prescale: 1,
      postscale: 1,
      root: undefined,
      detail: '',
    } as const;
    const { name, unnamed, processSet, bytes, isGrouped } = ObservedOperation.of(description, 2);
    assert.deepEqual([name, unnamed, processSet, bytes, isGrouped], ['allreduce.noname.7', 7, 2, 34, true]);
  });

  test('that leaves again without getting to the transport keeps its marks', () => {
    const operation = new ObservedOperation();
    operation.leave([0, 10], 1);
    operation.leave([], 2);
    operation.leave([], 3);
    assert.deepEqual([operation.lastMarks, operation.leftAtMs], [[0, 10], 1]);
  });
});
