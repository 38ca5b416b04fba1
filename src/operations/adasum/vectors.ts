// The arithmetic of Adasum on pieces of vectors. float32 and the half types are held in float32, float64 in float64; dot
// products and coefficients are float64 always, and every element is rounded once for each combination.

import type { DType, TypedArray } from '../../tensor/dtype.ts';
import { type HalfDType, narrow, widen } from '../../tensor/half-float.ts';

export type Vector = Float32Array | Float64Array;

export const adasumDtypes: readonly DType[] = ['float16', 'bfloat16', 'float32', 'float64'];

/** The root of the smallest normal float64. Squares of lengths below it are not precise, so the coefficient stays 1. */
const minSquare = Math.sqrt(2 ** -1022);

/** a·b, |a|² and |b|², at `at` and the two places behind it. */
export function putDots(sums: Float64Array, at: number, a: Vector, b: Vector): void {
  let dot = 0;
  let squareA = 0;
  let squareB = 0;
  for (let i = 0; i < a.length; i++) {
    const x = a[i] as number;
    const y = b[i] as number;
    dot += x * y;
    squareA += x * x;
    squareB += y * y;
  }
  sums[at] = dot;
  sums[at + 1] = squareA;
  sums[at + 2] = squareB;
}

/** a = (1 - a·b/2|a|²) a + (1 - a·b/2|b|²) b, with the dots of the whole vectors. */
export function combineInto(a: Vector, b: Vector, sums: Float64Array, at: number): void {
  const dot = sums[at] as number;
  const ofA = coefficient(dot, sums[at + 1] as number);
  const ofB = coefficient(dot, sums[at + 2] as number);
  for (let i = 0; i < a.length; i++) a[i] = ofA * (a[i] as number) + ofB * (b[i] as number);
}

function coefficient(dot: number, square: number): number {
  return square < minSquare ? 1 : 1 - dot / (2 * square);
}

export function scale(vector: Vector, factor: number): void {
  if (factor === 1) return;
  for (let i = 0; i < vector.length; i++) vector[i] = (vector[i] as number) * factor;
}

/** Elements of a dtype that came as bytes; over the same memory where that is possible. */
export function fromBytes(bytes: Uint8Array, dtype: DType): Vector {
  const { buffer, byteOffset, byteLength } = bytes;
  if (dtype === 'float32' || dtype === 'float64') {
    const kind = dtype === 'float32' ? Float32Array : Float64Array;
    if (byteOffset % kind.BYTES_PER_ELEMENT !== 0) return fromBytes(bytes.slice(), dtype);
    return new kind(buffer as ArrayBuffer, byteOffset, byteLength / kind.BYTES_PER_ELEMENT);
  }
  if (byteOffset % 2 !== 0) return fromBytes(bytes.slice(), dtype);
  const bits = new Uint16Array(buffer, byteOffset, byteLength / 2);
  const wide = new Float32Array(bits.length);
  widen(dtype as HalfDType, bits, wide);
  return wide;
}

/** The inverse of fromBytes(): rounded to the dtype. */
export function toDtype(vector: Vector, dtype: DType): TypedArray {
  if (dtype === 'float32' || dtype === 'float64') return vector;
  const bits = new Uint16Array(vector.length);
  narrow(dtype as HalfDType, vector as Float32Array, bits);
  return bits;
}
