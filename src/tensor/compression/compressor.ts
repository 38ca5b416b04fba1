// What a compressor is. There are two kinds. A `Compressor` makes tensors smaller such that the small ones can be summed
// element by element: half floats. A `ReducingCompressor` sends what cannot be summed like that (indices and values,
// codes with scales, factors of a matrix), so it says itself how the sum comes about, step by step (wire.ts).

import type { Tensor } from '../tensor.ts';
import type { CompressionKernels } from './kernels.ts';
import type { Wire } from './wire.ts';

/** A user may write one of their own. Both functions return new tensors or their argument unchanged. */
export interface Compressor<Context = unknown> {
  /** Part of what the ranks agree on: all must use the same compressor. */
  readonly name: string;
  compress(tensor: Tensor): { tensor: Tensor; context: Context };
  decompress(tensor: Tensor, context: Context): Tensor;
}

/**
 * A user may write one of their own. It takes part in allreduce with Sum and Average of float32 and float64 tensors
 * (these travel as float32); tensors of other dtypes never come here, they are reduced as they are.
 */
export interface ReducingCompressor {
  /** Part of what the ranks agree on, so it tells the parameters too: `topk(0.01)`. */
  readonly name: string;
  /** What is not sent is kept, and added to the tensor of that name in the next call. Default: false. */
  readonly errorFeedback?: boolean;
  /**
   * Puts the sum over all members of the group into the tensors' `data`: the same bits on every member. Called on all
   * of them with tensors of the same shapes, so what it yields must follow from these, the group's size and `shared`.
   */
  reduce(tensors: readonly CompressibleTensor[], group: CompressionGroup): Wire<void>;
}

export interface CompressibleTensor {
  /** This rank's values, multiplied with the prescale factor, with the residual added; a copy, free to be changed. */
  readonly data: Float32Array;
  readonly shape: readonly number[];
  /**
   * With error feedback, in calls with a name: what has been added to `data` because it was not sent last time. When the
   * last step of the wire is done, to be filled with what was not sent this time; as it is, it comes again.
   */
  readonly residual: Float32Array | undefined;
  /** What stays from call to call and is the same on all ranks, by names of the compressor's own choice. */
  readonly shared: Map<string, Float32Array>;
}

/** Who reduces together. */
export interface CompressionGroup {
  /** This rank's place in it. */
  readonly index: number;
  readonly size: number;
}

/** What the compressors of this folder get besides: the transport's own kernels, if it has any. */
export interface KernelGroup extends CompressionGroup {
  readonly kernels?: CompressionKernels | undefined;
}

export type AnyCompressor = Compressor | ReducingCompressor;

export function isReducing(compressor: AnyCompressor): compressor is ReducingCompressor {
  return typeof (compressor as Partial<ReducingCompressor>).reduce === 'function';
}
