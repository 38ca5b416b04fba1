import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CompiledOperation } from './compiled-operation.ts';
import { Remembered } from './remembered.ts';

const operation = (name: string) => ({ name }) as unknown as CompiledOperation;

describe('what a process set remembers', () => {
  test('does not grow with 400,000 names, of which each is used once', () => {
    const remembered = new Remembered();
    let largest = 0;
    for (let step = 0; step < 400_000; step++) {
      const name = `step.${step}`;
      assert.equal(remembered.get(name), undefined);
      remembered.set(name, operation(name));
      largest = Math.max(largest, remembered.size);
    }
    assert.ok(largest <= 4096, `${largest} operations`);
  });

  test('keeps what is used among names that are not used again', () => {
    const remembered = new Remembered(10);
    const kept = operation('kept');
    remembered.set('kept', kept);
    for (let step = 0; step < 1000; step++) {
      remembered.set(`step.${step}`, operation(`step.${step}`));
      if (step % 5 === 0) assert.equal(remembered.get('kept'), kept);
    }
    assert.ok(remembered.size <= 20);
  });

  test('has one place for a name: the newest operation is there', () => {
    const remembered = new Remembered(2);
    for (let i = 0; i < 5; i++) {
      const newest = operation(`${i}`);
      remembered.set('w', newest);
      assert.equal(remembered.get('w'), newest);
    }
    assert.equal(remembered.size, 1);
  });
});
