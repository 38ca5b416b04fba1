// The two kinds of compressors. A `Compressor` makes tensors smaller such that the small ones can be summed element by
// element: half floats. A `ReducingCompressor` sends data that cannot be summed like that (indices and values, codes with
// scales, factors of a matrix), so it defines itself how the sum is computed, step by step (wire.ts).

import type { Tensor } from '../tensor.ts';
import type { CompressionKernels } from './kernels.ts';
import type { Wire } from './wire.ts';

/** Users may write their own. Both functions return new tensors or their argument unchanged. */
export interface Compressor<Context = unknown> {
  /** Part of what the ranks agree on: all must use the same compressor. */
  readonly name: string;
  compress(tensor: Tensor): { tensor: Tensor; context: Context };
  decompress(tensor: Tensor, context: Context): Tensor;
}

/**
 * Users may write their own. It is used for allreduce with Sum and Average of float32 and float64 tensors (these travel
 * as float32); tensors of other dtypes are reduced without compression.
 */
export interface ReducingCompressor {
  /** Part of what the ranks agree on, so it includes the parameters: `topk(0.01)`. */
  readonly name: string;
  /** Keep what is not sent, and add it to the tensor of that name in the next call. Default: false. */
  readonly errorFeedback?: boolean;
  /**
   * Writes the sum over all members of the group into the tensors' `data`, with the same bits on every member. It is called
   * on all members with tensors of the same shapes; what it yields must depend only on these, the group's size and `shared`.
   */
  reduce(tensors: readonly CompressibleTensor[], group: CompressionGroup): Wire<void>;
}

export interface CompressibleTensor {
  /** A copy of this rank's values, prescaled, with the residual added. The compressor may change it. */
  readonly data: Float32Array;
  readonly shape: readonly number[];
  /**
   * With error feedback, in calls with a name: what was added to `data` because it was not sent last time. After the last
   * step, fill it with what was not sent this time; if left unchanged, it is added again.
   */
  readonly residual: Float32Array | undefined;
  /** State that persists between calls and is the same on all ranks, by names that the compressor chooses. */
  readonly shared: Map<string, Float32Array>;
}

/** The ranks that reduce together. */
export interface CompressionGroup {
  /** This rank's place in it. */
  readonly index: number;
  readonly size: number;
}

/** What the compressors of this folder get in addition: the transport's kernels, if it has any. */
export interface KernelGroup extends CompressionGroup {
  readonly kernels?: CompressionKernels | undefined;
}

export type AnyCompressor = Compressor | ReducingCompressor;

export function isReducing(compressor: AnyCompressor): compressor is ReducingCompressor {
  return typeof (compressor as Partial<ReducingCompressor>).reduce === 'function';
}
