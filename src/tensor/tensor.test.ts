import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TypedArray } from './dtype.ts';
import { emptyLike, naturalDtype, operandOf, type TensorLike, tensor, viewLike } from './tensor.ts';

function detached<A extends TypedArray>(array: A): A {
  structuredClone(array, { transfer: [array.buffer as ArrayBuffer] });
  return array;
}

describe('tensor()', () => {
  test('is a view of the given memory', () => {
    const data = new Float32Array(6);
    const made = tensor(data, [2, 3]);
    assert.equal(made.data, data);
    assert.deepEqual([made.shape, made.dtype], [[2, 3], 'float32']);
    assert.deepEqual(tensor(data).shape, [6]);
    assert.deepEqual(tensor(Float32Array.of(7), []).shape, []);
    assert.deepEqual(tensor(new Float32Array(0), [0, 5]).shape, [0, 5]);
  });

  test('copies plain numbers into the typed array of the dtype', () => {
    assert.deepEqual(tensor([1.5, 2]), { data: Float32Array.of(1.5, 2), shape: [2], dtype: 'float32' });
    assert.deepEqual(tensor([1, 2], [2, 1], 'int64').data, BigInt64Array.of(1n, 2n));
    assert.deepEqual(tensor([1, 0], [2], 'bool').data, Uint8Array.of(1, 0));
  });

  for (const [array, dtype] of [
    [new Float32Array(1), 'float32'],
    [new Float64Array(1), 'float64'],
    [new Int8Array(1), 'int8'],
    [new Uint8Array(1), 'uint8'],
    [new Uint8ClampedArray(1), 'uint8'],
    [Buffer.alloc(1), 'uint8'],
    [new Int16Array(1), 'int16'],
    [new Uint16Array(1), 'uint16'],
    [new Int32Array(1), 'int32'],
    [new BigInt64Array(1), 'int64'],
    [new Uint32Array(1), undefined],
    [new BigUint64Array(1), undefined],
    [new DataView(new ArrayBuffer(1)), undefined],
  ] as const) {
    test(`a bare ${array.constructor.name} is ${dtype ?? 'nothing we know'}`, () => {
      assert.equal(naturalDtype(array), dtype);
      if (dtype !== undefined) return;
      assert.throws(() => operandOf(array as TypedArray, 'allreduce "x"'), {
        code: 'ERR_HVD_INVALID_DTYPE',
        message: new RegExp(`allreduce "x": there is no dtype for a ${array.constructor.name}`),
      });
    });
  }

  const rejected: [string, () => unknown, string, RegExp][] = [
    [
      'a shape that does not fit',
      () => tensor(new Float32Array(5), [2, 3]),
      'ERR_HVD_INVALID_ARGUMENT',
      /shape \[2, 3\] has 6 elements, the array has 5/,
    ],
    [
      'an array that is not empty for an empty shape',
      () => tensor(new Float32Array(5), [0, 3]),
      'ERR_HVD_INVALID_ARGUMENT',
      /shape \[0, 3\] has 0 elements, the array has 5/,
    ],
    [
      'a negative length',
      () => tensor(new Float32Array(1), [-1]),
      'ERR_HVD_INVALID_ARGUMENT',
      /whole numbers from 0/,
    ],
    [
      'half a row',
      () => tensor(new Float32Array(1), [0.5]),
      'ERR_HVD_INVALID_ARGUMENT',
      /whole numbers from 0/,
    ],
    [
      'a shape that is no list',
      () => tensor(new Float32Array(1), 1 as never),
      'ERR_HVD_INVALID_ARGUMENT',
      /a shape is a list/,
    ],
    [
      'the wrong array for the dtype',
      () => tensor(new Float32Array(1), [1], 'bfloat16'),
      'ERR_HVD_INVALID_DTYPE',
      /dtype bfloat16 lives in a Uint16Array, not in a Float32Array/,
    ],
    [
      'an unknown dtype',
      () => tensor(new Float32Array(1), [1], 'float8' as never),
      'ERR_HVD_INVALID_DTYPE',
      /there is no dtype "float8"; there are uint8, /,
    ],
    [
      'a name every object has',
      () => tensor(new Float32Array(1), [1], 'constructor' as never),
      'ERR_HVD_INVALID_DTYPE',
      /there is no dtype "constructor"/,
    ],
    [
      'an unknown dtype for plain numbers',
      () => tensor([1], [1], 'float8' as never),
      'ERR_HVD_INVALID_DTYPE',
      /there is no dtype "float8"/,
    ],
    [
      'numbers for half floats',
      () => tensor([1], [1], 'float16'),
      'ERR_HVD_INVALID_DTYPE',
      /float16 takes a Uint16Array of bit patterns/,
    ],
    [
      'numbers that no int64 is',
      () => tensor([0.5], [1], 'int64'),
      'ERR_HVD_INVALID_ARGUMENT',
      /int64 takes whole numbers, not 0.5/,
    ],
    [
      'no data at all',
      () => tensor(undefined as never),
      'ERR_HVD_INVALID_ARGUMENT',
      /typed array or a list of numbers, not undefined/,
    ],
    [
      'a detached array',
      () => tensor(detached(new Float32Array(4)), [4]),
      'ERR_HVD_DETACHED',
      /the array's buffer is detached/,
    ],
  ];
  for (const [what, make, code, message] of rejected) {
    test(`rejects ${what}`, () => {
      assert.throws(make, { name: 'HorovodError', code, message });
    });
  }
});

describe('operandOf()', () => {
  test('takes a bare array as a tensor of one dimension', () => {
    const data = Int32Array.of(1, 2, 3);
    assert.deepEqual(operandOf(data, 'x'), { data, shape: [3], dtype: 'int32', isBare: true });
  });

  test('takes an empty array, and tells it from a detached one', () => {
    assert.deepEqual(operandOf(new Float32Array(0), 'x').shape, [0]);
    assert.throws(() => operandOf(detached(new Float32Array(3)), 'x'), { code: 'ERR_HVD_DETACHED' });
    const made = tensor(new Float32Array(3));
    detached(made.data);
    assert.throws(() => operandOf(made, 'x'), { code: 'ERR_HVD_DETACHED' });
  });

  for (const x of [undefined, null, 5, 'text', [1, 2], {}, { data: [1], shape: [1], dtype: 'float32' }]) {
    test(`rejects ${JSON.stringify(x)}`, () => {
      assert.throws(() => operandOf(x as unknown as TensorLike, 'allreduce "x"'), {
        name: 'HorovodError',
        message: /allreduce "x"/,
      });
    });
  }
});

describe('results', () => {
  for (const array of [
    new Float32Array(2),
    new Uint8ClampedArray(2),
    new BigInt64Array(2),
    Buffer.alloc(2),
  ]) {
    test(`are of the kind that went in: ${array.constructor.name}`, () => {
      const bytes = new Uint8Array(16).fill(1);
      for (const made of [emptyLike(array, 2), viewLike(array, bytes)]) {
        assert.equal(made.constructor, array.constructor);
      }
      assert.equal(viewLike(array, bytes).buffer, bytes.buffer);
      assert.equal(Number(emptyLike(array, 2)[1]), 0);
    });
  }
});
