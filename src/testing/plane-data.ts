// Inputs for the conformance suite of planes: values that differ for every member and element, in every dtype.

import { type DType, dtypes, type TypedArray } from '../tensor/dtype.ts';
import { float32ToBfloat16, float32ToFloat16 } from '../tensor/half-float.ts';

export function zeros(dtype: DType, length: number): TypedArray {
  return new (dtypes[dtype].arrays[0] as unknown as new (length: number) => TypedArray)(length);
}

/** Ordinary numbers of both signs, none exactly representable in fewer bits, so that a wrong order shows. */
export function values(dtype: DType, length: number, seed: number): TypedArray {
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
