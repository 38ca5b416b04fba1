// topk(ratio): only the largest values travel, with their indices; the rest accumulates in the residual until it is
// large itself (error feedback). The members' values are added in float32 in index order.
//
// Price: 1 step; each member receives size·k·8 bytes for k = ⌈ratio·n⌉ of n values. Small tensors, and those for which this
// saves nothing, are summed uncompressed in the same step.

import { HorovodError } from '../../errors.ts';
import { describe } from '../tensor.ts';
import type { CompressibleTensor, KernelGroup, ReducingCompressor } from './compressor.ts';
import { type CompressionKernels, plainKernels } from './kernels.ts';
import { allgather, allreduce, concatenate, float32In, together, uint32In } from './wire.ts';

export interface TopKOptions {
  /** Tensors with fewer values are not compressed. Default: 1024. */
  readonly minElements?: number | undefined;
  /** Keep what was not sent, and add it the next time. Default: true. */
  readonly errorFeedback?: boolean | undefined;
}

/** `ratio`: the fraction of values to send, above 0 and at most 1. */
export function topk(ratio: number, options: TopKOptions = {}): ReducingCompressor {
  if (typeof ratio !== 'number' || !(ratio > 0 && ratio <= 1)) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `Compression.topk(ratio): the ratio must be a number above 0 and at most 1 (0.01: one value in a hundred), not ${describe(ratio)}.`,
    );
  }
  const { minElements = 1024, errorFeedback = true } = Object(options) as TopKOptions;
  if (!Number.isSafeInteger(minElements) || minElements < 0) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `Compression.topk(): minElements must be a whole number from 0, not ${describe(minElements)}.`,
    );
  }
  const parameters = [
    `${ratio}`,
    ...(minElements === 1024 ? [] : [`from ${minElements} values`]),
    ...(errorFeedback ? [] : ['no error feedback']),
  ];
  return {
    name: `topk(${parameters.join(', ')})`,
    errorFeedback,
    *reduce(tensors, { size, kernels = plainKernels }: KernelGroup) {
      const isSparse = ({ data: { length } }: CompressibleTensor) =>
        length >= minElements && size * countOf(length, ratio) < length;
      const sparse = tensors.filter(isSparse);
      const whole = tensors.filter((tensor) => !isSparse(tensor));
      const chosen = sparse.map(({ data }) => largest(data, countOf(data.length, ratio), kernels));

      const dense = allreduce(whole.map(({ data }) => data));
      const list = concatenate(chosen.flatMap(({ places, values }) => [places, values]));
      const [, parts] = sparse.length === 0 ? [yield* dense, []] : yield* together(dense, allgather(list));

      for (const { residual } of whole) residual?.fill(0);
      let at = 0;
      sparse.forEach(({ data, residual }, i) => {
        const { places } = chosen[i] as Chosen;
        if (residual !== undefined) keepRest(residual, data, places);
        data.fill(0);
        for (const part of parts) add(part.subarray(at, at + 8 * places.length), data);
        at += 8 * places.length;
      });
    },
  };
}

export function countOf(length: number, ratio: number): number {
  return Math.max(1, Math.ceil(ratio * length));
}

interface Chosen {
  readonly places: Uint32Array;
  readonly values: Float32Array;
}

export function largest(data: Float32Array, count: number, { chooseLargest }: CompressionKernels): Chosen {
  const places = new Uint32Array(count);
  const values = new Float32Array(count);
  chooseLargest(data, places, values);
  return { places, values };
}

/** residual = data without what was sent. Values that are not finite are dropped, or they would spoil all later steps. */
function keepRest(residual: Float32Array, data: Float32Array, places: Uint32Array): void {
  for (let i = 0; i < data.length; i++) {
    const value = data[i] as number;
    residual[i] = value - value === 0 ? value : 0;
  }
  for (const place of places) residual[place] = 0;
}

function add(bytes: Uint8Array, sum: Float32Array): void {
  const count = bytes.byteLength / 8;
  const places = uint32In(bytes.subarray(0, 4 * count));
  const values = float32In(bytes.subarray(4 * count));
  for (let k = 0; k < count; k++) (sum[places[k] as number] as number) += values[k] as number;
}
