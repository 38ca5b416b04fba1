import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { deserialize, serialize } from 'node:v8';
import fc from 'fast-check';
import { bytesOfObject, objectOfBytes } from './object-bytes.ts';

const same = (value: unknown) => objectOfBytes(bytesOfObject(value));

describe('objects as bytes', () => {
  test('come back as structuredClone() makes them, whatever they are', () => {
    const anything = fc.anything({
      withBigInt: true,
      withDate: true,
      withMap: true,
      withSet: true,
      withTypedArray: true,
    });
    fc.assert(
      fc.property(anything, (value) => assert.deepStrictEqual(same(value), deserialize(serialize(value)))),
      { numRuns: 2000 },
    );
  });

  test('what JSON would change travels in another way', () => {
    const shared = { a: 1 };
    const loop: Record<string, unknown> = {};
    loop['self'] = loop;
    const holes = new Array(2);
    const values = [-0, Number.NaN, Number.POSITIVE_INFINITY, undefined, 1n, new Date(0), new Map([[1, 2]])];
    for (const value of [...values, { x: undefined }, [undefined], holes, Object.assign([1], { more: 1 })]) {
      assert.deepStrictEqual(same(value), structuredClone(value));
      assert.deepStrictEqual(same({ value }), { value: structuredClone(value) });
    }
    const [first, second] = same([shared, shared]) as [object, object];
    assert.equal(first, second);
    const back = same(loop) as typeof loop;
    assert.equal(back['self'], back);
    assert.equal(1 in (same(holes) as unknown[]), false);
  });

  test('texts keep every code unit', () => {
    const text = 'a\ud800b\u0000"\\é漢😀\udc00';
    assert.equal(same(text), text);
    assert.deepStrictEqual(same({ [text]: text }), { [text]: text });
  });

  test('small plain values are JSON, large ones and others are not', () => {
    assert.equal(
      Buffer.from(bytesOfObject({ a: [1, 'x', null, true] })).toString(),
      '{"a":[1,"x",null,true]}',
    );
    for (const value of [
      Array.from({ length: 300 }, (_, i) => i),
      Array.from({ length: 40 }, () => ({})),
      new Set(),
    ]) {
      assert.equal(bytesOfObject(value)[0], 0xff);
      assert.deepStrictEqual(same(value), value);
    }
  });

  test('what cannot be cloned is an error', () => {
    assert.throws(() => bytesOfObject(() => 1), /could not be cloned/);
    assert.throws(() => bytesOfObject({ toJSON: () => 1 }), /could not be cloned/);
    assert.throws(() => bytesOfObject(Symbol('x')), /could not be cloned/);
  });
});
