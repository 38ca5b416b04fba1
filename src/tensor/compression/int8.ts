// int8: a quarter of the bytes. Values are cut into blocks; a block travels as one float32 scale and a signed byte for
// each value. Every member sums one slice of the blocks: it gets the others' codes of it (alltoall), adds the values in
// float32 in index order, encodes the sums and sends them to all (allgather), so all have the same bits.
//
// Price: 2 steps, 2·n·(1 + 4/block)·(size−1)/size bytes sent by each member, against 8·n·(size−1)/size of float32. Each
// encoding has an error of at most half a 127th of the largest value of its block.
//
// A value that is not finite travels as the code −128 and arrives as NaN; its neighbors are not affected.

import { HorovodError } from '../../errors.ts';
import { describe } from '../tensor.ts';
import type { CompressibleTensor, KernelGroup, ReducingCompressor } from './compressor.ts';
import { plainKernels } from './kernels.ts';
import { allgather, alltoall } from './wire.ts';

export interface Int8Options {
  /** Values that share a scale: a multiple of 4 from 4 to 65536. Default: 256. */
  readonly blockSize?: number | undefined;
  /** Keep what encoding has lost, and add it the next time. Default: false. */
  readonly errorFeedback?: boolean | undefined;
}

export function int8With(options: Int8Options = {}): ReducingCompressor {
  const { blockSize = 256, errorFeedback = false } = Object(options) as Int8Options;
  const isWhole = Number.isSafeInteger(blockSize) && blockSize % 4 === 0;
  if (!isWhole || blockSize < 4 || blockSize > 65536) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `Compression.int8With(): blockSize must be a multiple of 4 from 4 to 65536, not ${describe(blockSize)}.`,
    );
  }
  const parameters = [
    ...(blockSize === 256 ? [] : [`blocks of ${blockSize}`]),
    ...(errorFeedback ? ['error feedback'] : []),
  ];
  return {
    name: parameters.length === 0 ? 'int8' : `int8(${parameters.join(', ')})`,
    errorFeedback,
    *reduce(tensors, { index, size, kernels = plainKernels }: KernelGroup) {
      const slices = cutIntoSlices(tensors, blockSize, size);
      const given = packetsOf(slices);
      slices.forEach(({ runs }, i) => {
        const packet = given[i] as Uint8Array;
        for (const run of runs) {
          kernels.quantize(part(run.tensor.data, run), blockSize, packet, run.scalesAt, run.codesAt);
        }
      });

      const received = yield* alltoall(given);
      const mine = slices[index] as Slice;
      const sums = mine.runs.map(({ length }) => new Float32Array(length));
      const sent = new Uint8Array(mine.bytes);
      mine.runs.forEach(({ scalesAt, codesAt }, i) => {
        const sum = sums[i] as Float32Array;
        received.forEach((packet, member) => {
          kernels.dequantize(sum, blockSize, packet, scalesAt, codesAt, member > 0);
        });
        kernels.quantize(sum, blockSize, sent, scalesAt, codesAt);
      });

      const all = yield* allgather(sent);
      slices.forEach(({ runs }, i) => {
        for (const run of runs) {
          const { tensor, scalesAt, codesAt } = run;
          const data = part(tensor.data, run);
          if (errorFeedback && tensor.residual !== undefined) {
            const residual = part(tensor.residual, run);
            kernels.keepRest(residual, data, blockSize, given[i] as Uint8Array, scalesAt, codesAt, false);
          }
          kernels.dequantize(data, blockSize, all[i] as Uint8Array, scalesAt, codesAt, false);
        }
      });
      if (!errorFeedback) return;
      // What encoding the sums has lost goes to the residual of the member that encoded them.
      mine.runs.forEach((run, i) => {
        const { tensor, scalesAt, codesAt } = run;
        if (tensor.residual === undefined) return;
        const residual = part(tensor.residual, run);
        kernels.keepRest(residual, sums[i] as Float32Array, blockSize, sent, scalesAt, codesAt, true);
      });
    },
  };
}

export const int8: ReducingCompressor = int8With();

/** What one member sums. Its packet contains all scales of its blocks, then all codes. */
interface Slice {
  readonly runs: readonly Run[];
  readonly bytes: number;
}

/** Consecutive blocks of one tensor. */
interface Run {
  readonly tensor: CompressibleTensor;
  readonly from: number;
  readonly length: number;
  /** Where its scales and codes begin in the packet of the slice. */
  readonly scalesAt: number;
  readonly codesAt: number;
}

/** Slices of equally many blocks. A block never spans two tensors: their scales are unrelated. */
function cutIntoSlices(tensors: readonly CompressibleTensor[], blockSize: number, size: number): Slice[] {
  const counts = tensors.map(({ data }) => Math.ceil(data.length / blockSize));
  const total = counts.reduce((sum, count) => sum + count, 0);
  return Array.from({ length: size }, (_, i) => {
    const [first, end] = [Math.floor((total * i) / size), Math.floor((total * (i + 1)) / size)];
    const runs: Run[] = [];
    let block = 0;
    let codesAt = 4 * (end - first);
    tensors.forEach((tensor, t) => {
      const count = counts[t] as number;
      const [start, stop] = [Math.max(first, block), Math.min(end, block + count)];
      if (start < stop) {
        const from = (start - block) * blockSize;
        const length = Math.min((stop - block) * blockSize, tensor.data.length) - from;
        runs.push({ tensor, from, length, scalesAt: 4 * (start - first), codesAt });
        codesAt += length;
      }
      block += count;
    });
    return { runs, bytes: codesAt };
  });
}

/** A packet for each slice, one after another in the same memory, so that they can be sent without a copy. */
function packetsOf(slices: readonly Slice[]): Uint8Array[] {
  const whole = new Uint8Array(slices.reduce((sum, { bytes }) => sum + bytes, 0));
  let at = 0;
  return slices.map(({ bytes }) => {
    at += bytes;
    return whole.subarray(at - bytes, at);
  });
}

function part(values: Float32Array, { from, length }: Run): Float32Array {
  return values.subarray(from, from + length);
}
