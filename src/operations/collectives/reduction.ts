// What allreduce and reducescatter share: how values are combined, and what travels.

import { HorovodError } from '../../errors.ts';
import { Compression, type Compressor, compressorOf } from '../../tensor/compression/compression.ts';
import type { AnyCompressor } from '../../tensor/compression/compressor.ts';
import { wireOf } from '../../tensor/compression/half.ts';
import type { DType } from '../../tensor/dtype.ts';
import type { HalfDType } from '../../tensor/half-float.ts';
import { Adasum, Average, Max, Min, Product, type ReduceOp, Sum } from '../../tensor/reduce-op.ts';
import { describe, type Operand, type Tensor } from '../../tensor/tensor.ts';
import { checkFactor, invalidArgument, type ReduceOptions } from '../options.ts';

export interface Reduction<C extends AnyCompressor = AnyCompressor> {
  readonly op: ReduceOp;
  readonly prescale: number;
  readonly postscale: number;
  readonly compression: C;
}

export function reductionOf(options: ReduceOptions, what: string): Reduction {
  const { op = Average } = options;
  const compression = compressorOf(options.compression, what);
  if (![Average, Sum, Min, Max, Product, Adasum].includes(op)) {
    throw invalidArgument(
      `${what}: op must be Average, Sum, Min, Max, Product or Adasum, not ${describe(op)}.`,
    );
  }
  const prescale = checkFactor(options.prescaleFactor, 'prescaleFactor', what);
  const postscale = checkFactor(options.postscaleFactor, 'postscaleFactor', what);
  return { op, prescale, postscale, compression };
}

export function checkReducible(dtype: DType, { op, prescale, postscale }: Reduction, what: string): void {
  if (dtype !== 'bool' || (op !== Average && prescale === 1 && postscale === 1)) return;
  throw new HorovodError(
    'ERR_HVD_INVALID_DTYPE',
    `${what}: bool tensors cannot be averaged or scaled. Sum and Max are 'or', Min and Product are 'and'.`,
  );
}

/** The scales of the transport's operation, to which Average is a Sum with a scale. */
export function scalesOf(
  { op, prescale, postscale }: Reduction,
  size: number,
): { readonly prescale: number; readonly postscale: number } {
  return { prescale, postscale: op === Average ? postscale / size : postscale };
}

/** The name of the compression, which the ranks must agree on. */
export function detailOf({ compression }: Reduction): string {
  return compression === Compression.none ? '' : compression.name;
}

/** An operand as it travels. */
export interface Sent {
  readonly tensor: Tensor;
  /** What decompress() needs. */
  readonly context: unknown;
  readonly isSame: boolean;
  /** The transport compresses while it copies. */
  readonly wire: HalfDType | undefined;
}

export function compressed(
  { data, shape, dtype }: Operand,
  { op, compression }: Reduction<Compressor>,
): Sent {
  const wire = op === Adasum ? undefined : wireOf(compression, dtype);
  if (wire !== undefined) return { tensor: { data, shape, dtype }, context: undefined, isSame: true, wire };
  const { tensor, context } = compression.compress({ data, shape, dtype });
  return { tensor, context, isSame: tensor.data === data, wire };
}
