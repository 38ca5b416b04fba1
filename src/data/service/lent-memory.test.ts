import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LentMemory } from './lent-memory.ts';

const column = (memory: ArrayBuffer, at: number) => ({
  data: new Uint8Array(memory, at, 8),
  shape: [8],
  dtype: 'uint8' as const,
});

test('memory comes back with the last of its columns, once', () => {
  const lent = new LentMemory();
  const memory = new ArrayBuffer(32);
  const batch = {
    a: column(memory, 0),
    b: column(memory, 8),
    own: column(new ArrayBuffer(8), 0),
    id: 3,
    name: 'x',
  };
  assert.equal(lent.giveBack(batch), undefined);
  lent.lend(batch, memory);
  assert.equal(lent.giveBack({ a: batch.a }), undefined);
  assert.equal(lent.giveBack({ a: batch.a, own: batch.own }), undefined);
  assert.equal(lent.giveBack({ b: batch.b }), memory);
  assert.equal(lent.giveBack(batch), undefined);
  lent.lend(batch.a, memory);
  assert.equal(lent.giveBack(batch.a), memory);
});

test('a batch that has other values in its memory keeps it', () => {
  const lent = new LentMemory();
  const memory = new ArrayBuffer(32);
  const batch = { a: column(memory, 0), text: new Uint8Array(memory, 8, 8) };
  lent.lend(batch, memory);
  assert.equal(lent.giveBack(batch), undefined);
  assert.equal(lent.giveBack(null), undefined);
});
