// float16 (IEEE binary16) and bfloat16 to and from float32, bit by bit: Node 20 has no Float16Array. Narrowing
// rounds to nearest, ties to even; a NaN stays a (quiet) NaN and never rounds up to infinity; values beyond
// the range become infinity. The tests compare the native and WASM kernels with this file.

export type HalfDType = 'float16' | 'bfloat16';

/** target[i] = source[i], widened; the arrays have one length and do not overlap. */
export function widen(dtype: HalfDType, source: Uint16Array, target: Float32Array): void {
  if (dtype === 'float16') float16ToFloat32(source, target);
  else bfloat16ToFloat32(source, target);
}

/** target[i] = source[i], rounded; the arrays have one length and do not overlap. */
export function narrow(dtype: HalfDType, source: Float32Array, target: Uint16Array): void {
  if (dtype === 'float16') float32ToFloat16(source, target);
  else float32ToBfloat16(source, target);
}

/** The float32 pattern of a float16 pattern; always exact. A NaN becomes quiet, as in the processor's conversion. */
export function float16BitsToFloat32Bits(half: number): number {
  const sign = (half & 0x8000) << 16;
  const exponent = (half >>> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0x1f) return (sign | (fraction === 0 ? 0x7f800000 : 0x7fc00000 | (fraction << 13))) >>> 0;
  if (exponent !== 0) return (sign | ((exponent + 112) << 23) | (fraction << 13)) >>> 0;
  if (fraction === 0) return sign >>> 0;
  // Subnormal: fraction · 2^-24. Move the leading one to bit 10, where a normal number has it implied.
  const shift = Math.clz32(fraction) - 21;
  return (sign | ((113 - shift) << 23) | (((fraction << shift) & 0x3ff) << 13)) >>> 0;
}

/** The float16 pattern nearest to a float32 pattern. */
export function float32BitsToFloat16Bits(single: number): number {
  const sign = (single >>> 16) & 0x8000;
  const magnitude = single & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00 | ((magnitude >>> 13) & 0x1ff);
  if (magnitude >= 0x47800000) return sign | 0x7c00;
  if (magnitude >= 0x38800000) {
    // Normal: add just less than half a unit, plus one if the kept part is odd, and truncate. A carry into the
    // exponent rounds up to the next power of two, or to infinity.
    return sign | ((magnitude - 0x38000000 + 0xfff + ((magnitude >>> 13) & 1)) >>> 13);
  }
  const exponent = magnitude >>> 23;
  if (exponent < 102) return sign; // below 2^-25, half of the smallest subnormal
  const significand = (magnitude & 0x7fffff) | 0x800000;
  const shift = 126 - exponent;
  const kept = significand >>> shift;
  const rest = significand & ((1 << shift) - 1);
  const half = 1 << (shift - 1);
  return sign | (rest > half || (rest === half && (kept & 1) === 1) ? kept + 1 : kept);
}

/** The float32 pattern of a bfloat16 pattern; always exact. */
export function bfloat16BitsToFloat32Bits(half: number): number {
  return (half << 16) >>> 0;
}

/** The bfloat16 pattern nearest to a float32 pattern. */
export function float32BitsToBfloat16Bits(single: number): number {
  // Without this a NaN whose payload lies in the low bits would round to infinity.
  if ((single & 0x7fffffff) > 0x7f800000) return ((single >>> 16) & 0xffff) | 0x40;
  return ((single + 0x7fff + ((single >>> 16) & 1)) >>> 16) & 0xffff;
}

export function float16ToNumber(half: number): number {
  return bitsToNumber(float16BitsToFloat32Bits(half));
}

/** `value` is first rounded to float32, as it would be in a Float32Array. */
export function numberToFloat16(value: number): number {
  return float32BitsToFloat16Bits(numberToBits(value));
}

export function bfloat16ToNumber(half: number): number {
  return bitsToNumber(bfloat16BitsToFloat32Bits(half));
}

/** `value` is first rounded to float32, as it would be in a Float32Array. */
export function numberToBfloat16(value: number): number {
  return float32BitsToBfloat16Bits(numberToBits(value));
}

/** target[i] = source[i], widened; the arrays have one length and do not overlap. */
export function float16ToFloat32(source: Uint16Array, target: Float32Array): void {
  const bits = patternsOf(target);
  for (let i = 0; i < source.length; i++) bits[i] = float16BitsToFloat32Bits(source[i] as number);
}

/** target[i] = source[i], rounded; the arrays have one length and do not overlap. */
export function float32ToFloat16(source: Float32Array, target: Uint16Array): void {
  const bits = patternsOf(source);
  for (let i = 0; i < bits.length; i++) target[i] = float32BitsToFloat16Bits(bits[i] as number);
}

/** target[i] = source[i], widened; the arrays have one length and do not overlap. */
export function bfloat16ToFloat32(source: Uint16Array, target: Float32Array): void {
  const bits = patternsOf(target);
  for (let i = 0; i < source.length; i++) bits[i] = (source[i] as number) << 16;
}

/** target[i] = source[i], rounded; the arrays have one length and do not overlap. */
export function float32ToBfloat16(source: Float32Array, target: Uint16Array): void {
  const bits = patternsOf(source);
  for (let i = 0; i < bits.length; i++) target[i] = float32BitsToBfloat16Bits(bits[i] as number);
}

function patternsOf(values: Float32Array): Uint32Array {
  return new Uint32Array(values.buffer, values.byteOffset, values.length);
}

function bitsToNumber(bits: number): number {
  const word = new DataView(new ArrayBuffer(4));
  word.setUint32(0, bits);
  return word.getFloat32(0);
}

function numberToBits(value: number): number {
  const word = new DataView(new ArrayBuffer(4));
  word.setFloat32(0, value);
  return word.getUint32(0);
}
