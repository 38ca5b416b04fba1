// The options of how gradients of several ranks become one, and their checks: shared by TensorFlow.js and jax-js.

import { HorovodError } from '../errors.ts';
import { invalid, readFlag } from '../operations/check-options.ts';
import { ProcessSet } from '../operations/process-set.ts';
import {
  type AnyCompressor,
  Compression,
  type CompressionName,
  compressorOf,
} from '../tensor/compression/compression.ts';
import { isReducing } from '../tensor/compression/compressor.ts';
import { Adasum, Average, type ReduceOp, Sum } from '../tensor/reduce-op.ts';
import { describe } from '../tensor/tensor.ts';

export interface ReductionOptions {
  /** Average (default), Sum or Adasum. With Adasum, an optimizer combines its updates instead of gradients. */
  op?: ReduceOp | undefined;
  /** One of Compression, its name, or your own compressor. Default: none. */
  compression?: AnyCompressor | CompressionName | undefined;
  /**
   * With Average: gradients are divided by this before the sum and by size / this after it, against overflow in half
   * precision. Default: 1.
   */
  gradientPredivideFactor?: number | undefined;
  /** The ranks that reduce together; others keep their gradients. Default: all ranks. */
  processSet?: ProcessSet | undefined;
}

export interface AggregationOptions {
  /**
   * Gradients are summed over this many passes before they are reduced and applied. With op Adasum, a rank takes this many
   * local steps before they are combined. Default: 1.
   */
  backwardPassesPerStep?: number | undefined;
  /** Divide that sum by the number of passes. Default: false. */
  averageAggregatedGradients?: boolean | undefined;
}

/** ReductionOptions, checked, with the defaults filled in. */
export interface Reduction {
  /** Named in errors. */
  readonly what: string;
  readonly op: ReduceOp;
  readonly compression: AnyCompressor;
  readonly prescaleFactor: number;
  readonly postscaleFactor: number;
  readonly processSet: ProcessSet | undefined;
}

export interface Aggregation {
  readonly backwardPassesPerStep: number;
  readonly averageAggregatedGradients: boolean;
}

export const reductionOptionNames: readonly string[] = [
  'op',
  'compression',
  'gradientPredivideFactor',
  'processSet',
];
export const aggregationOptionNames: readonly string[] = [
  'backwardPassesPerStep',
  'averageAggregatedGradients',
];

export function checkReduction(options: ReductionOptions, what: string): Reduction {
  const { op = Average, gradientPredivideFactor: factor = 1, processSet } = options;
  const compression = compressorOf(options.compression, what);
  if (op !== Average && op !== Sum && op !== Adasum) {
    throw invalid(what, 'op is Average, Sum or Adasum; gradients cannot be reduced in another way');
  }
  if (typeof factor !== 'number' || !Number.isFinite(factor) || factor <= 0) {
    throw invalid(what, `gradientPredivideFactor is a finite number above 0, not ${describe(factor)}`);
  }
  if (factor !== 1 && op !== Average) {
    throw invalid(what, `gradientPredivideFactor goes with op Average only, not with ${op.name}`);
  }
  if (op === Adasum && isReducing(compression)) {
    throw invalid(what, `compression ${compression.name} goes with op Average and Sum, not with Adasum`);
  }
  if (processSet !== undefined && !(processSet instanceof ProcessSet)) {
    throw invalid(what, `processSet is a ProcessSet, not ${describe(processSet)}`);
  }
  return { what, op, compression, prescaleFactor: 1 / factor, postscaleFactor: factor, processSet };
}

export function checkAggregation(options: AggregationOptions, { op, what }: Reduction): Aggregation {
  const { backwardPassesPerStep = 1 } = options;
  if (!Number.isSafeInteger(backwardPassesPerStep) || backwardPassesPerStep < 1) {
    const given = describe(backwardPassesPerStep);
    throw invalid(what, `backwardPassesPerStep is a whole number above 0, not ${given}`);
  }
  const averageAggregatedGradients = readFlag(options, 'averageAggregatedGradients', false, what);
  if (op === Adasum && averageAggregatedGradients) {
    throw invalid(
      what,
      'averageAggregatedGradients does not go with op Adasum, which aggregates no gradients',
    );
  }
  return { backwardPassesPerStep, averageAggregatedGradients };
}

/** Whether gradients can be reduced like this where each rank gets its share of them only (ZeRO-1). */
export function checkShardable({ what, op, compression }: Reduction): void {
  if (op !== Average && op !== Sum) {
    throw invalid(what, `shardOptimizerState goes with op Average and Sum, not with ${op.name}`);
  }
  if ([Compression.none, Compression.fp16, Compression.bf16].includes(compression as never)) return;
  throw new HorovodError(
    'ERR_HVD_UNSUPPORTED',
    `${what}: shardOptimizerState goes with Compression.none, fp16 and bf16, not with ${compression.name}: each rank gets the ` +
      'reduced gradients of its share only.',
  );
}
