import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type DType,
  dtypeNames,
  dtypes,
  type TypedArray,
  type TypedArrayConstructor,
} from '../../tensor/dtype.ts';
import { narrow, widen } from '../../tensor/half-float.ts';
import { reduceInto } from '../../tensor/reduce.ts';
import { Max, Min, Product, Sum } from '../../tensor/reduce-op.ts';
import { loadNative } from './load.ts';

const native = loadNative();

/** The same numbers every time: a multiplicative generator, its state in a closure. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9;
    return (state >>> 0) / 2 ** 32;
  };
}

/** Bit patterns of every kind: ordinary values, and for floats also infinities, NaN, zeros and subnormals. */
function fill(array: TypedArray, dtype: DType, next: () => number): void {
  const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  for (let i = 0; i < bytes.length; i++) bytes[i] = next() * 256;
  if (dtype !== 'float32' && dtype !== 'float64') return;
  for (let i = 0; i < array.length; i++) {
    if (next() < 0.7) (array as Float32Array)[i] = (next() - 0.5) * 10 ** Math.floor(next() * 8 - 4);
  }
}

/** NaN payloads are nobody's promise; everything else is compared bit by bit. */
function isNaNAt(array: TypedArray, dtype: DType, i: number): boolean {
  if (dtype === 'float16') return ((array[i] as number) & 0x7fff) > 0x7c00;
  if (dtype === 'bfloat16') return ((array[i] as number) & 0x7fff) > 0x7f80;
  return Number.isNaN(array[i]);
}

function assertSameBits(actual: TypedArray, expected: TypedArray, dtype: DType, what: string): void {
  for (let i = 0; i < expected.length; i++) {
    if (Object.is(actual[i], expected[i])) continue;
    if (isNaNAt(actual, dtype, i) && isNaNAt(expected, dtype, i)) continue;
    assert.fail(`${what}: element ${i} is ${actual[i]}, the definition says ${expected[i]}`);
  }
}

describe('the native kernels equal the definition in reduce.ts to the bit', {
  skip: native.built ? false : native.reason,
}, () => {
  for (const instructions of ['baseline', 'avx2', 'avx512'])
    for (const dtype of dtypeNames) {
      test(`${instructions}, ${dtype}: every operator, odd lengths, misaligned, one to six sources, scaled and not`, (t) => {
        if (!native.built) return;
        if (!native.addon.useInstructionSet(instructions)) return t.skip(`no ${instructions} here`);
        const next = random(dtypes[dtype].code + 1);
        const ArrayType = dtypes[dtype].arrays[0] as TypedArrayConstructor;
        const scales =
          dtype === 'bool'
            ? [[1, 1]]
            : [
                [1, 1],
                [1, 1 / 3],
                [0.7, 1],
                [-1.5, 2.25],
              ];
        for (const op of [Sum, Min, Max, Product]) {
          for (const length of [0, 1, 3, 7, 8, 15, 16, 17, 31, 33, 67, 1025]) {
            for (let sources = 1; sources <= 6; sources++) {
              const [prescale, postscale] = scales[(length + sources) % scales.length] as [number, number];
              // One element into its buffer: never on a vector's boundary.
              const inputs = Array.from({ length: sources }, () => {
                const array = new ArrayType(
                  new ArrayBuffer((length + 1) * dtypes[dtype].bytes),
                  dtypes[dtype].bytes,
                  length,
                );
                fill(array, dtype, next);
                return array;
              });
              const expected = new ArrayType(length);
              reduceInto(expected, inputs, dtype, op, prescale, postscale);
              const isInPlace = next() < 0.5;
              const output = isInPlace ? (inputs[sources - 1] as TypedArray) : new ArrayType(length);
              native.addon.reduceNow(output, inputs, dtypes[dtype].code, op.code, prescale, postscale);
              assertSameBits(
                output,
                expected,
                dtype,
                `${dtype} ${op.name} of ${sources} × ${length}, ${prescale}, ${postscale}`,
              );
            }
          }
        }
      });
    }
});

describe('the native conversions equal those of half-float.ts to the bit, NaN included', {
  skip: native.built ? false : native.reason,
}, () => {
  const patterns = Uint16Array.from({ length: 65536 }, (_, i) => i);
  const bitsOf = (array: Float32Array) => new Uint32Array(array.buffer, array.byteOffset, array.length);

  for (const instructions of ['baseline', 'avx2', 'avx512'])
    for (const dtype of ['float16', 'bfloat16'] as const) {
      const { code } = dtypes[dtype];
      test(`${instructions}, ${dtype}: all 65536 patterns widen, and what lies between them narrows`, (t) => {
        if (!native.built) return;
        if (!native.addon.useInstructionSet(instructions)) return t.skip(`no ${instructions} here`);
        const expected = new Float32Array(patterns.length);
        const wide = new Float32Array(patterns.length);
        widen(dtype, patterns, expected);
        native.addon.widenNow(wide, patterns, code);
        assert.deepEqual(bitsOf(wide), bitsOf(expected));
        // Each value, its neighbours in float32 and the middles between two halves.
        const halfUnit = dtype === 'float16' ? 0x1000 : 0x8000;
        for (const step of [0, 1, -1, halfUnit, halfUnit - 1, halfUnit + 1]) {
          const near = new Float32Array(bitsOf(expected).map((bits) => bits + step).buffer);
          const narrowed = new Uint16Array(near.length);
          const wanted = new Uint16Array(near.length);
          narrow(dtype, near, wanted);
          native.addon.narrowNow(narrowed, near, code);
          assert.deepEqual(narrowed, wanted);
        }
      });

      test(`${instructions}, ${dtype}: any float32, at every alignment and odd lengths`, (t) => {
        if (!native.built) return;
        if (!native.addon.useInstructionSet(instructions)) return t.skip(`no ${instructions} here`);
        const next = random(code);
        for (let length = 0; length < 70; length++) {
          const at = length % 17;
          const values = new Float32Array(length + at + 1).subarray(at, at + length);
          fill(values, length % 2 === 0 ? 'float32' : 'uint8', next);
          const wanted = new Uint16Array(length);
          narrow(dtype, values, wanted);
          const room = new Uint16Array(length + at + 9).fill(0xabcd);
          const halves = room.subarray(at, at + length);
          native.addon.narrowNow(halves, values, code);
          assert.deepEqual(halves, wanted);
          const wide = new Float32Array(length + at + 9).fill(7);
          const expected = new Float32Array(length);
          widen(dtype, halves, expected);
          native.addon.widenNow(wide.subarray(at, at + length), halves, code);
          assert.deepEqual(bitsOf(wide.subarray(at, at + length)), bitsOf(expected));
          for (const i of [at - 1, at + length].filter((place) => place >= 0)) {
            assert.equal(room[i], 0xabcd);
            assert.equal(wide[i], 7);
          }
        }
      });
    }
});
