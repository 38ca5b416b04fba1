// The loops of the lossy compressors, which also define the results. Native transports have faster functions with the same
// bits (native/src/reduce/lossy.h); all others run these.

import { scaleInto } from '../reduce.ts';

export interface CompressionKernels {
  /** target += values, in float32. */
  add(target: Float32Array, values: Float32Array): void;
  /** target = source · factor, as scaleInto() in reduce.ts; both may be the same array. */
  scale(target: Float32Array, source: Float32Array, factor: number): void;
  /**
   * Encodes `values` in blocks of `blockSize` (the last one may be shorter) into the packet: the blocks' scales (float32)
   * from byte `scalesAt` on, the codes from byte `codesAt` on.
   */
  quantize(
    values: Float32Array,
    blockSize: number,
    packet: Uint8Array,
    scalesAt: number,
    codesAt: number,
  ): void;
  /** target = the decoded values; `isAdded`: target += these, in float32. */
  dequantize(
    target: Float32Array,
    blockSize: number,
    packet: Uint8Array,
    scalesAt: number,
    codesAt: number,
    isAdded: boolean,
  ): void;
  /** residual = values − the decoded values, 0 where that is not finite; `isAdded`: residual += that. */
  keepRest(
    residual: Float32Array,
    values: Float32Array,
    blockSize: number,
    packet: Uint8Array,
    scalesAt: number,
    codesAt: number,
    isAdded: boolean,
  ): void;
  /**
   * The values of the largest magnitude, as many as `values` has room for, in order of their indices; of equal ones the
   * first. A NaN counts as largest, so that it is noticed.
   */
  chooseLargest(data: Float32Array, places: Uint32Array, values: Float32Array): void;
  // Matrices: m is rows × columns; p is rank × rows and q is rank × columns, that is, their columns lie one after
  // another. Sums are in float64, in index order.
  /** p = m·q */
  multiply(
    m: Float32Array,
    rows: number,
    columns: number,
    q: Float32Array,
    p: Float32Array,
    rank: number,
  ): void;
  /** q = mᵀ·p */
  multiplyTransposed(
    m: Float32Array,
    rows: number,
    columns: number,
    p: Float32Array,
    q: Float32Array,
    rank: number,
  ): void;
  /** target = p·qᵀ */
  expand(
    p: Float32Array,
    q: Float32Array,
    rows: number,
    columns: number,
    rank: number,
    target: Float32Array,
  ): void;
}

const add: CompressionKernels['add'] = (target, values) => {
  for (let i = 0; i < target.length; i++) (target[i] as number) += values[i] as number;
};

const scale: CompressionKernels['scale'] = (target, source, factor) => {
  scaleInto(target, source, 'float32', factor);
};

const notFinite = -128;
/** Adding and subtracting this rounds a double of moderate size to the nearest whole number, ties to even. */
const roundingBias = 1.5 * 2 ** 52;
const isLittleEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;

const quantize: CompressionKernels['quantize'] = (values, blockSize, packet, scalesAt, codesAt) => {
  const { scales, codes } = packetOf(packet, scalesAt, codesAt);
  for (let from = 0, block = 0; from < values.length; from += blockSize, block++) {
    const to = Math.min(from + blockSize, values.length);
    const scale = scaleOf(values, from, to);
    scales.setFloat32(4 * block, scale, isLittleEndian);
    const inverse = scale === 0 ? 0 : 1 / scale;
    for (let i = from; i < to; i++) {
      const value = values[i] as number;
      const code = value * inverse + roundingBias - roundingBias;
      // The scale of very small numbers has a large rounding error.
      if (code >= -127 && code <= 127) codes[i] = code;
      else if (value - value !== 0) codes[i] = notFinite;
      else codes[i] = code < 0 ? -127 : 127;
    }
  }
};

function scaleOf(values: Float32Array, from: number, to: number): number {
  let largest = 0;
  for (let i = from; i < to; i++) {
    const magnitude = Math.abs(values[i] as number);
    if (magnitude > largest && magnitude !== Number.POSITIVE_INFINITY) largest = magnitude;
  }
  const scale = Math.fround(largest / 127);
  // Rounding up would turn the largest float32 numbers into infinity.
  const isTooLarge = Math.fround(scale * 127) === Number.POSITIVE_INFINITY;
  return isTooLarge ? Math.fround(scale * (1 - 2 ** -23)) : scale;
}

const dequantize: CompressionKernels['dequantize'] = (
  target,
  blockSize,
  packet,
  scalesAt,
  codesAt,
  isAdded,
) => {
  const { scales, codes } = packetOf(packet, scalesAt, codesAt);
  for (let from = 0, block = 0; from < target.length; from += blockSize, block++) {
    const to = Math.min(from + blockSize, target.length);
    const scale = scales.getFloat32(4 * block, isLittleEndian);
    if (isAdded) {
      for (let i = from; i < to; i++) {
        (target[i] as number) += meaning(codes[i] as number, scale);
      }
    } else {
      for (let i = from; i < to; i++) target[i] = meaning(codes[i] as number, scale);
    }
  }
};

const keepRest: CompressionKernels['keepRest'] = (
  residual,
  values,
  blockSize,
  packet,
  scalesAt,
  codesAt,
  isAdded,
) => {
  const { scales, codes } = packetOf(packet, scalesAt, codesAt);
  for (let from = 0, block = 0; from < values.length; from += blockSize, block++) {
    const to = Math.min(from + blockSize, values.length);
    const scale = scales.getFloat32(4 * block, isLittleEndian);
    for (let i = from; i < to; i++) {
      const off = (values[i] as number) - meaning(codes[i] as number, scale);
      // Drop what is not finite: one bad step must not spoil all that follow.
      const rest = off - off === 0 ? off : 0;
      residual[i] = isAdded ? (residual[i] as number) + rest : rest;
    }
  }
};

function meaning(code: number, scale: number): number {
  return code === notFinite ? Number.NaN : Math.fround(code * scale);
}

/** A packet from a transport may begin at any byte. */
function packetOf(
  { buffer, byteOffset, byteLength }: Uint8Array,
  scalesAt: number,
  codesAt: number,
): { readonly scales: DataView; readonly codes: Int8Array } {
  return {
    scales: new DataView(buffer, byteOffset + scalesAt, byteLength - scalesAt),
    codes: new Int8Array(buffer, byteOffset + codesAt, byteLength - codesAt),
  };
}

/** Two passes that count and one that picks: no sorting, and deterministic. */
const chooseLargest: CompressionKernels['chooseLargest'] = (data, places, values) => {
  const count = places.length;
  const patterns = new Uint32Array(data.buffer, data.byteOffset, data.length);
  // Without the sign, patterns are ordered like magnitudes. First the high half, then the low half within one high half.
  const [high, aboveHigh] = cut(patterns, 16, 0x7fff, undefined, count);
  const [low, aboveLow] = cut(patterns, 0, 0xffff, high, count - aboveHigh);
  const threshold = ((high << 16) | low) >>> 0;
  let ties = count - aboveHigh - aboveLow;
  for (let i = 0, k = 0; k < count; i++) {
    const magnitude = (patterns[i] as number) & 0x7fffffff;
    if (magnitude < threshold || (magnitude === threshold && ties-- <= 0)) continue;
    places[k] = i;
    values[k++] = data[i] as number;
  }
};

/** The largest key such that at least `count` patterns are as large or larger, and how many are larger. */
function cut(
  patterns: Uint32Array,
  shift: 0 | 16,
  mask: number,
  within: number | undefined,
  count: number,
): readonly [key: number, above: number] {
  const counts = new Uint32Array(mask + 1);
  for (let i = 0; i < patterns.length; i++) {
    const pattern = patterns[i] as number;
    if (within === undefined || ((pattern >>> 16) & 0x7fff) === within) {
      (counts[(pattern >>> shift) & mask] as number)++;
    }
  }
  let above = 0;
  for (let key = mask; key > 0; key--) {
    const here = counts[key] as number;
    if (above + here >= count) return [key, above];
    above += here;
  }
  return [0, above];
}

// Four columns at a time: each value of the big matrix is read once for all of them, and the sums are independent. Missing
// columns are zeros, and their results are dropped.

const multiply: CompressionKernels['multiply'] = (m, rows, columns, q, p, rank) => {
  for (let k = 0; k < rank; k += 4) {
    const [a, b, c, d] = fourColumns(q, columns, k, rank);
    for (let i = 0; i < rows; i++) {
      const start = i * columns;
      let [sumA, sumB, sumC, sumD] = [0, 0, 0, 0];
      for (let j = 0; j < columns; j++) {
        const value = m[start + j] as number;
        sumA += value * (a[j] as number);
        sumB += value * (b[j] as number);
        sumC += value * (c[j] as number);
        sumD += value * (d[j] as number);
      }
      p[k * rows + i] = sumA;
      if (k + 1 < rank) p[(k + 1) * rows + i] = sumB;
      if (k + 2 < rank) p[(k + 2) * rows + i] = sumC;
      if (k + 3 < rank) p[(k + 3) * rows + i] = sumD;
    }
  }
};

const multiplyTransposed: CompressionKernels['multiplyTransposed'] = (m, rows, columns, p, q, rank) => {
  const sums = Array.from({ length: 4 }, () => new Float64Array(columns));
  const [sumsA, sumsB, sumsC, sumsD] = sums as [Float64Array, Float64Array, Float64Array, Float64Array];
  for (let k = 0; k < rank; k += 4) {
    const [a, b, c, d] = fourColumns(p, rows, k, rank);
    for (const each of sums) each.fill(0);
    for (let i = 0; i < rows; i++) {
      const start = i * columns;
      const [factorA, factorB, factorC, factorD] = [a[i], b[i], c[i], d[i]] as [
        number,
        number,
        number,
        number,
      ];
      for (let j = 0; j < columns; j++) {
        const value = m[start + j] as number;
        sumsA[j] = (sumsA[j] as number) + value * factorA;
        sumsB[j] = (sumsB[j] as number) + value * factorB;
        sumsC[j] = (sumsC[j] as number) + value * factorC;
        sumsD[j] = (sumsD[j] as number) + value * factorD;
      }
    }
    for (let each = 0; each < 4 && k + each < rank; each++) {
      q.set(sums[each] as Float64Array, (k + each) * columns);
    }
  }
};

const expand: CompressionKernels['expand'] = (p, q, rows, columns, rank, target) => {
  const sums = new Float64Array(columns);
  const qs = Array.from({ length: Math.ceil(rank / 4) }, (_, i) => fourColumns(q, columns, 4 * i, rank));
  for (let i = 0; i < rows; i++) {
    sums.fill(0);
    for (let k = 0; k < rank; k += 4) {
      const [a, b, c, d] = qs[k / 4] as Four;
      const factorA = p[k * rows + i] as number;
      const factorB = k + 1 < rank ? (p[(k + 1) * rows + i] as number) : 0;
      const factorC = k + 2 < rank ? (p[(k + 2) * rows + i] as number) : 0;
      const factorD = k + 3 < rank ? (p[(k + 3) * rows + i] as number) : 0;
      for (let j = 0; j < columns; j++) {
        sums[j] =
          (sums[j] as number) +
          factorA * (a[j] as number) +
          factorB * (b[j] as number) +
          factorC * (c[j] as number) +
          factorD * (d[j] as number);
      }
    }
    target.set(sums, i * columns);
  }
};

type Four = readonly [Float32Array, Float32Array, Float32Array, Float32Array];

function fourColumns(matrix: Float32Array, length: number, first: number, rank: number): Four {
  const zeros = first + 4 > rank ? new Float32Array(length) : undefined;
  return [0, 1, 2, 3].map((k) =>
    first + k < rank ? matrix.subarray((first + k) * length, (first + k + 1) * length) : zeros,
  ) as unknown as Four;
}

export const plainKernels: CompressionKernels = {
  add,
  scale,
  quantize,
  dequantize,
  keepRest,
  chooseLargest,
  multiply,
  multiplyTransposed,
  expand,
};
