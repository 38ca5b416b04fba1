// The parts of run() without processes: functions as text, outcomes as bytes, bytes through a store.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runInThisContext } from 'node:vm';
import { HorovodError } from '../../errors.ts';
import { MemoryStore } from '../../rendezvous/store/memory-store.ts';
import { decodeCall, encodeCall, functionExpression } from './call.ts';
import { decodeOutcome, encodeError, encodeValue, rebuildError } from './outcome.ts';
import { getBytes, putBytes } from './store-bytes.ts';

test('every way to write a function arrives as that function', async () => {
  const object = {
    method(a: number) {
      return a + 1;
    },
    async later(a: number) {
      return a + 1;
    },
  };
  for (const fn of [
    (a: number) => a + 1,
    async (a: number) => a + 1,
    function plain(a: number) {
      return a + 1;
    },
    async function named(a: number) {
      return a + 1;
    },
    object.method,
    object.later,
  ]) {
    const arrived = runInThisContext(functionExpression(fn)) as (a: number) => unknown;
    assert.equal(await arrived(1), 2, String(fn));
  }
});

test('what cannot be sent is rejected before anything is started', () => {
  for (const [target, args, expected] of [
    [Math.max, [], /has no source text/],
    [(() => 1).bind(null), [], /has no source text/],
    [class A {}, [], /a class cannot be called/],
    [7, [], /expected a function or the path of a module, not 7/],
    ['./no-such-module.mjs', [], /the module \/.*no-such-module\.mjs does not exist/],
    [new URL('file:///no-such-module.mjs'), [], /the module \/no-such-module\.mjs does not exist/],
    [() => 1, [() => 2], /args cannot be sent to the ranks/],
    [() => 1, 'abc', /args must be an array, not 'abc'/],
  ] as const) {
    assert.throws(
      () => encodeCall(target, args as unknown as unknown[]),
      (error) =>
        HorovodError.is(error) && error.code === 'ERR_HVD_INVALID_ARGUMENT' && expected.test(error.message),
    );
  }
});

test('arguments arrive as they were', () => {
  const args = [1n, new Map([['a', new Float32Array([1.5])]]), undefined, { nested: [new Date(0)] }];
  assert.deepEqual(decodeCall(encodeCall(() => 1, args)).args, args);
});

test('an error keeps its stack, class, code and causes', () => {
  const error = new HorovodError('ERR_HVD_MISMATCH', 'shapes differ.', {
    rank: 3,
    cause: new RangeError('inner'),
  });
  const outcome = decodeOutcome(encodeError(error));
  assert.equal(outcome.kind, 'error');
  if (outcome.kind !== 'error') return;
  const rebuilt = rebuildError(outcome.error) as Error & { code?: string; rank?: number };
  assert.equal(rebuilt.stack, error.stack);
  assert.equal(rebuilt.name, 'HorovodError');
  assert.ok(rebuilt instanceof HorovodError);
  assert.equal(rebuilt.detail, 'shapes differ.');
  assert.equal(rebuilt.code, 'ERR_HVD_MISMATCH');
  assert.equal(rebuilt.rank, 3);
  assert.equal((rebuilt.cause as Error).name, 'RangeError');
  const odd = decodeOutcome(encodeError('just text'));
  assert.ok(odd.kind === 'error' && /'just text' was thrown/.test(odd.error.message));
});

test('an error that is its own cause has an end', () => {
  const error = new Error('round');
  error.cause = error;
  assert.equal(decodeOutcome(encodeError(error)).kind, 'error');
});

test('a value that cannot be cloned is an error of its rank', () => {
  const { bytes, failure } = encodeValue(() => 1);
  assert.ok(failure !== undefined);
  const outcome = decodeOutcome(bytes);
  assert.ok(outcome.kind === 'error' && /cannot be sent back/.test(outcome.error.message));
});

test('bytes of any length go through the store', async () => {
  const store = new MemoryStore();
  for (const length of [0, 1, 36_864, 36_865, 3_000_000]) {
    const bytes = Buffer.alloc(length, 'abc');
    const arriving = getBytes(store, `key ${length}`, { timeoutMs: 5000 });
    await putBytes(store, `key ${length}`, bytes);
    assert.ok((await arriving).equals(bytes));
  }
});
