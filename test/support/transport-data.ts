// Inputs for the conformance suite of transports: values that differ for every member and element, in every dtype.

import { type DType, dtypes, type TypedArray } from '../../src/tensor/dtype.ts';
import {
  bfloat16ToFloat32,
  float16ToFloat32,
  float32ToBfloat16,
  float32ToFloat16,
} from '../../src/tensor/half-float.ts';
import {
  type AllreduceOperation,
  type ReducescatterOperation,
  type TransportOperation,
  wireDType,
} from '../../src/transport/transport.ts';

export function zeros(dtype: DType, length: number): TypedArray {
  return new (dtypes[dtype].arrays[0] as unknown as new (length: number) => TypedArray)(length);
}

/** Numbers of both signs that need all bits of their dtype, so that a wrong order changes the result. */
export function values(dtype: DType, length: number, seed: number): TypedArray {
  // Creating them takes longer than the test, so shorter inputs are the beginning of longer ones.
  const key = `${dtype} ${seed}`;
  const known = longestMade.get(key);
  if (known !== undefined && known.length >= length) return known.slice(0, length);
  const made = makeValues(dtype, length, seed);
  longestMade.set(key, made);
  return made.slice();
}

const longestMade = new Map<string, TypedArray>();

function makeValues(dtype: DType, length: number, seed: number): TypedArray {
  let state = Math.imul(seed + 1, 0x9e3779b1) | 1;
  const next = (): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state;
  };
  const result = zeros(dtype, length);
  if (dtype === 'float16' || dtype === 'bfloat16') {
    const wide = Float32Array.from({ length }, () => next() / 2 ** 27);
    if (dtype === 'float16') float32ToFloat16(wide, result as Uint16Array);
    else float32ToBfloat16(wide, result as Uint16Array);
  } else if (result instanceof BigInt64Array || result instanceof BigUint64Array) {
    for (let i = 0; i < length; i++) result[i] = BigInt(next()) * BigInt(next());
  } else {
    const divisor = dtype.startsWith('float') ? 2 ** 27 : 1;
    for (let i = 0; i < length; i++) result[i] = dtype === 'bool' ? next() & 1 : next() / divisor;
  }
  return result;
}

export function bytes(length: number, seed: number): Uint8Array {
  return values('uint8', length, seed) as Uint8Array;
}

export function bytesOf(array: TypedArray): Buffer {
  return Buffer.from(array.buffer, array.byteOffset, array.byteLength);
}

export type Reduction = AllreduceOperation | ReducescatterOperation;

export function isReduction(operation: TransportOperation): operation is Reduction {
  return operation.kind === 'allreduce' || operation.kind === 'reducescatter';
}

const roundings: Partial<Record<DType, number>> = {
  float64: 2 ** -52,
  float32: 2 ** -23,
  float16: 2 ** -10,
  bfloat16: 2 ** -7,
};
/** No input of `values` is larger. */
const largestValue = 16;

/** Equal except for rounding at each step, which depends on the order of members. Integers must be equal. */
export function isClose(
  array: TypedArray,
  wanted: TypedArray,
  operation: Reduction,
  members: number,
): boolean {
  const { dtype, op, prescale, postscale } = operation;
  const rounding = roundings[wireDType(operation)];
  if (rounding === undefined || op.name === 'Min' || op.name === 'Max') return false;
  const [got, expected] = [toNumbers(array, dtype), toNumbers(wanted, dtype)];
  const sum = members * largestValue * Math.abs(prescale * postscale);
  return got.every((value, i) => {
    const size = op.name === 'Sum' ? sum : Math.abs(expected[i] as number);
    return Math.abs(value - (expected[i] as number)) <= 2 * (members + 2) * rounding * size;
  });
}

function toNumbers(array: TypedArray, dtype: DType): readonly number[] | Float32Array {
  if (dtype !== 'float16' && dtype !== 'bfloat16') return array as Float32Array;
  const wide = new Float32Array(array.length);
  if (dtype === 'float16') float16ToFloat32(array as Uint16Array, wide);
  else bfloat16ToFloat32(array as Uint16Array, wide);
  return wide;
}
