// The definition of every reduction, to the last bit. The tests compare the WASM and native kernels with it.
//
//   prescale   ≠ 1: each element becomes x' = round(x · prescale)
//   combine    inputs in index order, ((x0 ∘ x1) ∘ x2) ∘ …
//   postscale  ≠ 1: result = round(acc · postscale)
//
// where `round` and ∘ depend on the dtype:
//   integers   ∘ wraps at the width of the dtype. Scaling is done in float64 and truncated toward zero; what
//              does not fit wraps modulo 2^bits, NaN and infinities become 0.
//   float32    every step is rounded to float32; the scale factors are rounded to float32 first.
//   float64    plain.
//   half       (float16, bfloat16) x' is a float32 product rounded to the dtype; the members are accumulated in
//              float32, the postscale applied in float32, and the result rounded to the dtype once.
//   bool       0 or 1, any nonzero input counts as 1; Sum and Max are "or", Min and Product "and"; never scaled.
//   Min, Max   propagate a NaN. Of -0 and +0 the later one wins, as both compare equal.
// With a scale of exactly 1 nothing is multiplied. Which NaN (its payload) comes out is not defined.

import assert from 'node:assert';
import type { DType, TypedArray } from './dtype.ts';
import { narrow, widen } from './half-float.ts';
import type { ReduceOp, ReduceOpName } from './reduce-op.ts';

type NumberArray = Exclude<TypedArray, BigInt64Array | BigUint64Array>;
type Combine = Exclude<ReduceOpName, 'Average' | 'Adasum'>;

/** Elements combined at a time: small enough for the L1 cache, large enough to hide the overhead. */
const blockLength = 1024;

/**
 * output[i] = postscale · (prescale·inputs[0][i] ∘ prescale·inputs[1][i] ∘ …). All arrays have one length;
 * `output` may be one of the inputs.
 */
export function reduceInto(
  output: TypedArray,
  inputs: readonly TypedArray[],
  dtype: DType,
  op: ReduceOp,
  prescale: number,
  postscale: number,
): void {
  assert(inputs.length > 0 && inputs.every((input) => input.length === output.length));
  const combine = op.name;
  assert(combine !== 'Average' && combine !== 'Adasum', `${combine} is not a step-by-step reduction`);
  // A clamped array would saturate where uint8 wraps.
  const target = withoutClamping(output);
  const sources = inputs.map(withoutClamping);
  if (inputs.length === 1 && prescale === 1 && postscale === 1 && dtype !== 'bool') {
    copy(target, sources[0] as TypedArray);
    return;
  }
  const reduceBlock = blockReducer(dtype, combine, prescale, postscale);
  // All inputs of a block are read before its output is written, so the output may be one of the inputs.
  for (let start = 0; start < target.length; start += blockLength) {
    const end = Math.min(start + blockLength, target.length);
    const isWhole = start === 0 && end === target.length;
    reduceBlock(
      isWhole ? target : target.subarray(start, end),
      isWhole ? sources : sources.map((source) => source.subarray(start, end)),
    );
  }
}

/** target[i] = round(source[i] · factor), as a prescale does; a factor of 1 copies. */
export function scaleInto(target: TypedArray, source: TypedArray, dtype: DType, factor: number): void {
  if (dtype === 'bool') {
    assert(factor === 1, 'a bool tensor cannot be scaled');
    (target as Uint8Array).set(source as Uint8Array); // unchanged: only combining normalizes to 0 or 1
  } else if (factor === 1) {
    copy(withoutClamping(target), withoutClamping(source));
  } else if (dtype === 'float16' || dtype === 'bfloat16') {
    const wide = new Float32Array(source.length);
    widen(dtype, source as Uint16Array, wide);
    multiply(wide, Math.fround(factor));
    narrow(dtype, wide, target as Uint16Array);
  } else {
    copy(withoutClamping(target), withoutClamping(source));
    multiplyBy(withoutClamping(target), dtype, factor);
  }
}

type BlockReducer = (target: TypedArray, sources: readonly TypedArray[]) => void;

function blockReducer(dtype: DType, combine: Combine, prescale: number, postscale: number): BlockReducer {
  switch (dtype) {
    case 'bool':
      assert(prescale === 1 && postscale === 1, 'a bool tensor cannot be scaled');
      return (target, sources) => reduceBools(target as Uint8Array, sources as Uint8Array[], combine);
    case 'float16':
    case 'bfloat16':
      return (target, sources) => {
        const sum = new Float32Array(target.length);
        const next = new Float32Array(target.length);
        const rounded = new Uint16Array(target.length);
        for (const [index, source] of sources.entries()) {
          scaleInto(rounded, source, dtype, prescale);
          widen(dtype, rounded, index === 0 ? sum : next);
          if (index > 0) combineNumbers(sum, next, combine, false);
        }
        if (postscale !== 1) multiply(sum, Math.fround(postscale));
        narrow(dtype, sum, target as Uint16Array);
      };
    default:
      return (target, sources) => {
        // Typed arrays of the dtype: storing into them wraps or rounds, as each step must.
        const sum = target.slice();
        const next = prescale === 1 ? sum : target.slice();
        for (const [index, source] of sources.entries()) {
          if (index === 0) scaleInto(sum, source, dtype, prescale);
          else if (prescale === 1) combineInto(sum, source, dtype, combine);
          else {
            scaleInto(next, source, dtype, prescale);
            combineInto(sum, next, dtype, combine);
          }
        }
        multiplyBy(sum, dtype, postscale);
        copy(target, sum);
      };
  }
}

function combineInto(sum: TypedArray, next: TypedArray, dtype: DType, combine: Combine): void {
  if (dtype === 'int64') combineBigInts(sum as BigInt64Array, next as BigInt64Array, combine);
  else combineNumbers(sum as NumberArray, next as NumberArray, combine, dtype.includes('int'));
}

function combineNumbers(sum: NumberArray, next: NumberArray, combine: Combine, isInteger: boolean): void {
  const length = sum.length;
  switch (combine) {
    case 'Sum':
      for (let i = 0; i < length; i++) sum[i] = (sum[i] as number) + (next[i] as number);
      return;
    case 'Product':
      // A product of two int32 does not fit a float64; imul keeps the low 32 bits, which is what wrapping needs.
      if (isInteger) for (let i = 0; i < length; i++) sum[i] = Math.imul(sum[i] as number, next[i] as number);
      else for (let i = 0; i < length; i++) sum[i] = (sum[i] as number) * (next[i] as number);
      return;
    case 'Min':
      for (let i = 0; i < length; i++) {
        const a = sum[i] as number;
        const b = next[i] as number;
        if (!(a < b || Number.isNaN(a))) sum[i] = b;
      }
      return;
    case 'Max':
      for (let i = 0; i < length; i++) {
        const a = sum[i] as number;
        const b = next[i] as number;
        if (!(a > b || Number.isNaN(a))) sum[i] = b;
      }
      return;
  }
}

function combineBigInts(sum: BigInt64Array, next: BigInt64Array, combine: Combine): void {
  for (let i = 0; i < sum.length; i++) {
    const a = sum[i] as bigint;
    const b = next[i] as bigint;
    if (combine === 'Sum') sum[i] = BigInt.asIntN(64, a + b);
    else if (combine === 'Product') sum[i] = BigInt.asIntN(64, a * b);
    else if (combine === 'Min' ? b < a : b > a) sum[i] = b;
  }
}

function reduceBools(target: Uint8Array, sources: readonly Uint8Array[], combine: Combine): void {
  const isOr = combine === 'Sum' || combine === 'Max';
  for (let i = 0; i < target.length; i++) {
    const isTrue = (source: Uint8Array) => source[i] !== 0;
    target[i] = (isOr ? sources.some(isTrue) : sources.every(isTrue)) ? 1 : 0;
  }
}

function multiplyBy(values: TypedArray, dtype: DType, factor: number): void {
  if (factor === 1) return;
  if (values instanceof BigInt64Array || values instanceof BigUint64Array) {
    for (let i = 0; i < values.length; i++) {
      values[i] = wrapToInt64(Number(values[i]) * factor);
    }
  } else {
    multiply(values, dtype === 'float32' ? Math.fround(factor) : factor);
  }
}

/** Storing into an integer array truncates toward zero and wraps, as the definition of scaling integers requires. */
function multiply(values: NumberArray, factor: number): void {
  for (let i = 0; i < values.length; i++) values[i] = (values[i] as number) * factor;
}

function wrapToInt64(value: number): bigint {
  return Number.isFinite(value) ? BigInt.asIntN(64, BigInt(Math.trunc(value))) : 0n;
}

function copy(target: TypedArray, source: TypedArray): void {
  if (target !== source) (target as Uint8Array).set(source as Uint8Array);
}

function withoutClamping(array: TypedArray): TypedArray {
  if (!(array instanceof Uint8ClampedArray)) return array;
  return new Uint8Array(array.buffer, array.byteOffset, array.length);
}
