// int8: a quarter of the bytes. Values are cut into blocks; a block travels as one float32 scale and a signed byte for
// each value. Every member sums up one slice of the blocks: it gets the others' codes of it (alltoall), adds the values
// in float32 in order of the members, codes the sums anew and sends them to all (allgather), so all have the same bits.
//
// Price: 2 steps, 2·n·(1 + 4/block)·(size−1)/size bytes sent by each member, against 8·n·(size−1)/size of float32. Each
// coding is off by at most half a 127th of the largest value of its block.
//
// A value that is not finite travels as the code −128 and arrives as NaN; its neighbours are not touched by it.

import { HorovodError } from '../../errors.ts';
import { describe } from '../tensor.ts';
import type { CompressibleTensor, ReducingCompressor } from './compressor.ts';
import { allgather, alltoall } from './wire.ts';

export interface Int8Options {
  /** Values that share a scale: a multiple of 4 from 4 to 65536. Default: 256. */
  readonly blockSize?: number | undefined;
  /** Keep what the coding lost, and add it the next time. Default: false. */
  readonly errorFeedback?: boolean | undefined;
}

export function int8With(options: Int8Options = {}): ReducingCompressor {
  const { blockSize = 256, errorFeedback = false } = Object(options) as Int8Options;
  const isWhole = Number.isSafeInteger(blockSize) && blockSize % 4 === 0;
  if (!isWhole || blockSize < 4 || blockSize > 65536) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `Compression.int8With(): blockSize is a multiple of 4 from 4 to 65536, not ${describe(blockSize)}.`,
    );
  }
  const parameters = [
    ...(blockSize === 256 ? [] : [`blocks of ${blockSize}`]),
    ...(errorFeedback ? ['error feedback'] : []),
  ];
  return {
    name: parameters.length === 0 ? 'int8' : `int8(${parameters.join(', ')})`,
    errorFeedback,
    *reduce(tensors, { index, size }) {
      const blocks = cutIntoBlocks(tensors, blockSize);
      const slices = Array.from({ length: size }, (_, i) => sliceOf(blocks, i, size));
      const mine = slices[index] as readonly Block[];
      const given = slices.map((slice) => encode(slice, (block) => [block.tensor.data, block.from]));

      const received = yield* alltoall(given);
      const sums = sumsOf(mine, received);
      const sent = encode(mine, (_, at) => [sums, at]);

      const all = yield* allgather(sent);
      if (errorFeedback) {
        slices.forEach((slice, i) => {
          keepRest(slice, given[i] as Uint8Array);
        });
        keepRestOfSums(mine, sums, sent);
      }
      slices.forEach((slice, i) => {
        decode(slice, all[i] as Uint8Array, ({ tensor, from, length }, codes, at, scale) => {
          dequantize(codes, at, scale, tensor.data, from, length);
        });
      });
    },
  };
}

export const int8: ReducingCompressor = int8With();

interface Block {
  readonly tensor: CompressibleTensor;
  readonly from: number;
  readonly length: number;
}

/** Blocks do not reach over the end of a tensor: scales of one have nothing to do with another's. */
function cutIntoBlocks(tensors: readonly CompressibleTensor[], blockSize: number): Block[] {
  const blocks: Block[] = [];
  for (const tensor of tensors) {
    for (let from = 0; from < tensor.data.length; from += blockSize) {
      blocks.push({ tensor, from, length: Math.min(blockSize, tensor.data.length - from) });
    }
  }
  return blocks;
}

function sliceOf(blocks: readonly Block[], i: number, size: number): readonly Block[] {
  return blocks.slice(Math.floor((blocks.length * i) / size), Math.floor((blocks.length * (i + 1)) / size));
}

/** All scales, then all codes. `valuesOf` gives an array and where the block begins in it. */
function encode(
  slice: readonly Block[],
  valuesOf: (block: Block, at: number) => readonly [Float32Array, number],
): Uint8Array {
  const elements = slice.reduce((sum, { length }) => sum + length, 0);
  const bytes = new Uint8Array(4 * slice.length + elements);
  const scales = new Float32Array(bytes.buffer, 0, slice.length);
  const codes = new Int8Array(bytes.buffer, 4 * slice.length, elements);
  let at = 0;
  slice.forEach((block, i) => {
    const [values, from] = valuesOf(block, at);
    scales[i] = quantize(values, from, block.length, codes, at);
    at += block.length;
  });
  return bytes;
}

/** Visits the blocks of a coded slice: their codes from `at` on, and the scale. */
function decode(
  slice: readonly Block[],
  bytes: Uint8Array,
  take: (block: Block, codes: Int8Array, at: number, scale: number) => void,
): void {
  const scales = new DataView(bytes.buffer, bytes.byteOffset, 4 * slice.length);
  const codes = new Int8Array(bytes.buffer, bytes.byteOffset + 4 * slice.length);
  let at = 0;
  for (let i = 0; i < slice.length; i++) {
    const block = slice[i] as Block;
    take(block, codes, at, scales.getFloat32(4 * i, isLittleEndian));
    at += block.length;
  }
}

const isLittleEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;

/** The sums of one slice, its blocks one after the other; members in their order. */
function sumsOf(slice: readonly Block[], received: readonly Uint8Array[]): Float32Array {
  const sums = new Float32Array(slice.reduce((sum, { length }) => sum + length, 0));
  received.forEach((bytes, member) => {
    const take = member === 0 ? dequantize : addDequantized;
    decode(slice, bytes, ({ length }, codes, at, scale) => take(codes, at, scale, sums, at, length));
  });
  return sums;
}

/** residual = data − what its codes say. */
function keepRest(slice: readonly Block[], bytes: Uint8Array): void {
  decode(slice, bytes, ({ tensor: { data, residual }, from, length }, codes, at, scale) => {
    if (residual === undefined) return;
    dequantize(codes, at, scale, residual, from, length);
    for (let i = from; i < from + length; i++) {
      residual[i] = finite((data[i] as number) - (residual[i] as number));
    }
  });
}

/** What coding the sums has lost is the loss of whoever coded them. */
function keepRestOfSums(slice: readonly Block[], sums: Float32Array, bytes: Uint8Array): void {
  const values = new Float32Array(slice.reduce((most, { length }) => Math.max(most, length), 0));
  decode(slice, bytes, ({ tensor: { residual }, from, length }, codes, at, scale) => {
    if (residual === undefined) return;
    dequantize(codes, at, scale, values, 0, length);
    for (let i = 0; i < length; i++) {
      (residual[from + i] as number) += finite((sums[at + i] as number) - (values[i] as number));
    }
  });
}

/** What cannot be sent later either is forgotten: one bad step must not spoil all that follow. */
function finite(value: number): number {
  return Number.isFinite(value) ? value : 0;
}

const notFinite = -128;
/** Adding and subtracting this rounds a double of moderate size to the nearest whole number, ties to even. */
const roundingBias = 1.5 * 2 ** 52;

/** Codes `length` values and returns their scale. */
export function quantize(
  values: Float32Array,
  from: number,
  length: number,
  codes: Int8Array,
  at: number,
): number {
  let largest = 0;
  for (let i = from; i < from + length; i++) {
    const magnitude = Math.abs(values[i] as number);
    if (magnitude > largest && magnitude !== Number.POSITIVE_INFINITY) largest = magnitude;
  }
  let scale = Math.fround(largest / 127);
  // Rounded up, it would make the largest numbers there are infinite.
  if (Math.fround(scale * 127) === Number.POSITIVE_INFINITY) scale = Math.fround(scale * (1 - 2 ** -23));
  const inverse = scale === 0 ? 0 : 1 / scale;
  for (let i = 0; i < length; i++) {
    const value = values[from + i] as number;
    const code = value * inverse + roundingBias - roundingBias;
    // The scale of very small numbers is itself rounded much.
    if (code >= -127 && code <= 127) codes[at + i] = code;
    else if (value - value !== 0) codes[at + i] = notFinite;
    else codes[at + i] = code < 0 ? -127 : 127;
  }
  return scale;
}

/** target = what `length` codes mean. */
export function dequantize(
  codes: Int8Array,
  at: number,
  scale: number,
  target: Float32Array,
  from: number,
  length: number,
): void {
  for (let i = 0; i < length; i++) {
    const code = codes[at + i] as number;
    target[from + i] = code === notFinite ? Number.NaN : code * scale;
  }
}

/** target += what `length` codes mean, in float32. */
function addDequantized(
  codes: Int8Array,
  at: number,
  scale: number,
  target: Float32Array,
  from: number,
  length: number,
): void {
  for (let i = 0; i < length; i++) {
    const code = codes[at + i] as number;
    const value = code === notFinite ? Number.NaN : Math.fround(code * scale);
    target[from + i] = (target[from + i] as number) + value;
  }
}
