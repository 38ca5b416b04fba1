import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { type DType, dtypeNames, dtypes, type TypedArray } from './dtype.ts';
import { bfloat16ToNumber, float16ToNumber, numberToBfloat16, numberToFloat16 } from './half-float.ts';
import { reduceInto, scaleInto } from './reduce.ts';
import { Average, Max, Min, Product, type ReduceOp, Sum } from './reduce-op.ts';

const ops = [Sum, Min, Max, Product];

describe('reduceInto, by table', () => {
  const cases: Array<[string, DType, ReduceOp, number, number, number[][], number[]]> = [
    [
      'uint8 sums wrap at 256',
      'uint8',
      Sum,
      1,
      1,
      [
        [200, 1],
        [100, 2],
      ],
      [44, 3],
    ],
    [
      'int8 sums wrap at ±128',
      'int8',
      Sum,
      1,
      1,
      [
        [100, -100],
        [100, -100],
      ],
      [-56, 56],
    ],
    ['int8 wraps before it is averaged', 'int8', Sum, 1, 0.5, [[100], [100]], [-28]],
    ['int32 sums wrap', 'int32', Sum, 1, 1, [[2147483647], [1]], [-2147483648]],
    [
      'int32 products keep their low 32 bits',
      'int32',
      Product,
      1,
      1,
      [[123456789], [987654321]],
      [-67153019],
    ],
    ['uint16 products wrap', 'uint16', Product, 1, 1, [[65535], [65535]], [1]],
    [
      'an integer average truncates toward zero',
      'int32',
      Sum,
      1,
      0.5,
      [
        [3, -3],
        [4, -4],
      ],
      [3, -3],
    ],
    [
      'an integer prescale truncates before the sum',
      'int32',
      Sum,
      0.5,
      1,
      [
        [3, -3],
        [3, -3],
      ],
      [2, -2],
    ],
    ['a scaled integer out of range wraps', 'uint8', Sum, 100, 1, [[3]], [44]],
    ['an infinite scale of an integer gives 0', 'int32', Sum, Infinity, 1, [[3, 0]], [0, 0]],
    ['float32 adds left to right', 'float32', Sum, 1, 1, [[1e8], [1], [-1e8]], [0]],
    ['float16 accumulates in float32', 'float16', Sum, 1, 1, [[2048], [1], [1]], [2050]],
    ['float16 passes its range in between', 'float16', Sum, 1, 0.5, [[60000], [60000]], [60000]],
    ['bfloat16 accumulates in float32', 'bfloat16', Sum, 1, 1, [[256], [1], [1]], [258]],
    [
      'a NaN wins a Min',
      'float32',
      Min,
      1,
      1,
      [
        [NaN, 1, 1],
        [1, NaN, 2],
      ],
      [NaN, NaN, 1],
    ],
    [
      'a NaN wins a Max',
      'float64',
      Max,
      1,
      1,
      [
        [NaN, 1, 1],
        [1, NaN, 2],
      ],
      [NaN, NaN, 2],
    ],
    [
      'bool Sum is or',
      'bool',
      Sum,
      1,
      1,
      [
        [0, 0, 7, 1],
        [0, 2, 0, 1],
      ],
      [0, 1, 1, 1],
    ],
    [
      'bool Max is or',
      'bool',
      Max,
      1,
      1,
      [
        [0, 0, 7, 1],
        [0, 2, 0, 1],
      ],
      [0, 1, 1, 1],
    ],
    [
      'bool Min is and',
      'bool',
      Min,
      1,
      1,
      [
        [0, 0, 7, 1],
        [0, 2, 0, 1],
      ],
      [0, 0, 0, 1],
    ],
    [
      'bool Product is and',
      'bool',
      Product,
      1,
      1,
      [
        [0, 0, 7, 1],
        [0, 2, 0, 2],
      ],
      [0, 0, 0, 1],
    ],
    ['one bool input becomes 0 or 1', 'bool', Sum, 1, 1, [[5, 0]], [1, 0]],
  ];
  for (const [name, dtype, op, prescale, postscale, values, expected] of cases) {
    test(name, () => {
      const inputs = values.map((list) => store(dtype, list));
      const output = store(
        dtype,
        expected.map(() => 0),
      );
      reduceInto(output, inputs, dtype, op, prescale, postscale);
      assert.deepEqual(load(dtype, output), expected);
    });
  }

  test('a float16 prescale rounds each input to float16 before the sum', () => {
    const tiny = 2 ** -24; // the smallest subnormal: a third of it rounds to 0, two thirds to itself
    const output = new Uint16Array(2);
    const inputs = [store('float16', [tiny, tiny]), store('float16', [tiny, 2 * tiny])];
    reduceInto(output, inputs, 'float16', Sum, 1 / 3, 1);
    assert.deepEqual(load('float16', output), [0, tiny]);
  });

  test('int64 wraps at 64 bits, and scales through float64', () => {
    const output = new BigInt64Array(2);
    reduceInto(output, [BigInt64Array.of(2n ** 63n - 1n, 5n), BigInt64Array.of(1n, -8n)], 'int64', Sum, 1, 1);
    assert.deepEqual(output, BigInt64Array.of(-(2n ** 63n), -3n));
    reduceInto(output, [BigInt64Array.of(2n ** 62n, -7n)], 'int64', Sum, 1, 0.5);
    assert.deepEqual(output, BigInt64Array.of(2n ** 61n, -3n));
    reduceInto(output, [BigInt64Array.of(2n ** 62n, 1n)], 'int64', Sum, 6, 1);
    assert.deepEqual(output, BigInt64Array.of(BigInt.asIntN(64, 6n * 2n ** 62n), 6n));
  });

  test('a clamped array wraps like any uint8', () => {
    const output = new Uint8ClampedArray(1);
    reduceInto(output, [Uint8ClampedArray.of(200), Uint8ClampedArray.of(100)], 'uint8', Sum, 1, 1);
    assert.equal(output[0], 44);
  });

  test('Average and scaled bools are rejected: the caller turns one into a Sum and checks the other', () => {
    assert.throws(() => reduceInto(new Float32Array(1), [new Float32Array(1)], 'float32', Average, 1, 1));
    assert.throws(() => reduceInto(new Uint8Array(1), [new Uint8Array(1)], 'bool', Sum, 2, 1));
    assert.throws(() => scaleInto(new Uint8Array(1), new Uint8Array(1), 'bool', 2));
  });
});

describe('reduceInto against a naive model', () => {
  for (const dtype of dtypeNames) {
    test(`${dtype}: every op, scales, lengths and aliasing`, () => {
      fc.assert(
        fc.property(
          fc.integer({ min: 1, max: 5 }),
          fc.oneof(fc.integer({ min: 0, max: 9 }), fc.constantFrom(1023, 1024, 1025, 2050)),
          fc.constantFrom(...ops),
          fc.constantFrom(1, 0.5, 1 / 3, -1.5, 1e-3),
          fc.constantFrom(1, 0.25, 1 / 3, 7),
          fc.integer(),
          (members, length, op, pre, post, seed) => {
            const [prescale, postscale] = dtype === 'bool' ? [1, 1] : [pre, post];
            const inputs = Array.from({ length: members }, (_, m) => randomArray(dtype, length, seed + m));
            const expected = inputs.map(() => naive(dtype, inputs, op, prescale, postscale));
            const fresh = dtypes[dtype].arrays[0] as unknown as new (n: number) => TypedArray;
            const output = new fresh(length);
            reduceInto(output, inputs, dtype, op, prescale, postscale);
            assert.deepEqual(load(dtype, output), expected[0]);
            for (let alias = 0; alias < members; alias++) {
              const copies = inputs.map((input) => input.slice());
              reduceInto(copies[alias] as TypedArray, copies, dtype, op, prescale, postscale);
              assert.deepEqual(load(dtype, copies[alias] as TypedArray), expected[0]);
            }
          },
        ),
        { numRuns: 40 },
      );
    });
  }
});

/** One element at a time, on values rather than on arrays. */
function naive(
  dtype: DType,
  inputs: TypedArray[],
  op: ReduceOp,
  prescale: number,
  postscale: number,
): unknown[] {
  const columns = inputs.map((input) => load(dtype, input));
  return (columns[0] as unknown[]).map((_, i) => {
    const column = columns.map((values) => values[i] as number | bigint);
    if (dtype === 'bool') {
      const truths = column.map((value) => value !== 0);
      return Number(op === Sum || op === Max ? truths.includes(true) : !truths.includes(false));
    }
    const scaled =
      prescale === 1 ? column : column.map((value) => rounded(dtype, scale(dtype, value, prescale)));
    const isHalf = dtype.endsWith('float16');
    const step = isHalf
      ? (v: number | bigint) => Math.fround(Number(v))
      : (v: number | bigint) => rounded(dtype, v);
    let sum = scaled[0] as number | bigint;
    for (const value of scaled.slice(1)) sum = step(apply(op, sum, value));
    if (postscale !== 1)
      sum = isHalf
        ? Math.fround(Number(sum) * Math.fround(postscale))
        : rounded(dtype, scale(dtype, sum, postscale));
    return rounded(dtype, sum);
  });
}

function apply(op: ReduceOp, a: number | bigint, b: number | bigint): number | bigint {
  if (
    typeof a === 'bigint' ||
    typeof b === 'bigint' ||
    (Number.isInteger(a) && Number.isInteger(b) && op === Product && Math.abs(a * b) > 2 ** 53)
  ) {
    if (typeof a === 'number' && (Math.abs(a) > 2 ** 32 || Math.abs(Number(b)) > 2 ** 32))
      return a * Number(b);
    const [x, y] = [BigInt(a), BigInt(b)];
    if (op === Sum) return x + y;
    if (op === Product) return x * y;
    const [least, most] = x < y ? [x, y] : [y, x];
    return op === Min ? least : most;
  }
  if (op === Sum) return a + b;
  if (op === Product) return a * b;
  if (Number.isNaN(a) || Number.isNaN(b)) return Number.NaN;
  return op === Min ? (a < b ? a : b) : a > b ? a : b;
}

function scale(dtype: DType, value: number | bigint, factor: number): number {
  const narrowFactor = dtype === 'float64' || dtype.includes('int') ? factor : Math.fround(factor);
  const product = Number(value) * narrowFactor;
  return dtype.endsWith('float16') ? Math.fround(product) : product;
}

function rounded(dtype: DType, value: number | bigint): number | bigint {
  const bits = 8 * dtypes[dtype].bytes;
  switch (dtype) {
    case 'float64':
      return Number(value);
    case 'float32':
      return Math.fround(Number(value));
    case 'float16':
      return float16ToNumber(numberToFloat16(Number(value)));
    case 'bfloat16':
      return bfloat16ToNumber(numberToBfloat16(Number(value)));
    default: {
      const whole =
        typeof value === 'bigint' ? value : Number.isFinite(value) ? BigInt(Math.trunc(value)) : 0n;
      const wrapped = dtype.startsWith('u') ? BigInt.asUintN(bits, whole) : BigInt.asIntN(bits, whole);
      return dtype === 'int64' ? wrapped : Number(wrapped);
    }
  }
}

function store(dtype: DType, values: number[]): TypedArray {
  if (dtype === 'float16') return Uint16Array.from(values, numberToFloat16);
  if (dtype === 'bfloat16') return Uint16Array.from(values, numberToBfloat16);
  const array = new (dtypes[dtype].arrays[0] as unknown as new (n: number) => TypedArray)(values.length);
  for (const [i, value] of values.entries()) (array as Float64Array)[i] = value;
  return array;
}

function load(dtype: DType, array: TypedArray): Array<number | bigint> {
  const values = [...(array as Iterable<number | bigint>)];
  if (dtype === 'float16') return values.map((value) => float16ToNumber(Number(value)));
  if (dtype === 'bfloat16') return values.map((value) => bfloat16ToNumber(Number(value)));
  return values;
}

/** Bytes of a small generator: every pattern can occur, NaNs, infinities and subnormals among them. */
function randomArray(dtype: DType, length: number, seed: number): TypedArray {
  const bytes = new Uint8Array(length * dtypes[dtype].bytes);
  let state = seed | 1;
  for (let i = 0; i < bytes.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    bytes[i] = state >>> 24;
  }
  const array = new (dtypes[dtype].arrays[0] as unknown as new (b: ArrayBufferLike) => TypedArray)(
    bytes.buffer,
  );
  // Floats of random patterns rarely meet; make most of them ordinary numbers.
  if (array instanceof Float32Array || array instanceof Float64Array) {
    for (let i = 0; i < array.length; i++) if (i % 8 !== 0) array[i] = ((bytes[i] as number) - 128) / 3;
  }
  return array;
}
