// alloc(): tensors in memory the transport can reach without a copy.

import { HorovodError } from '../errors.ts';
import { type DType, dtypes, type TypedArrayConstructor } from '../tensor/dtype.ts';
import { checkShape, describe, elementsIn, type Tensor } from '../tensor/tensor.ts';
import type { OperationRunner } from './runner.ts';

/** A rank, or a process that will be one. */
export type AllocatingRank = Pick<OperationRunner, 'alloc' | 'world'>;

/** A zeroed tensor; garbage collected like any other. */
export function alloc(
  context: AllocatingRank,
  lengthOrShape: number | readonly number[],
  dtype: DType = 'float32',
): Tensor {
  const wanted = typeof lengthOrShape === 'number' ? [lengthOrShape] : lengthOrShape;
  checkShape(wanted, 'alloc()');
  const shape = [...wanted];
  if (!Object.hasOwn(dtypes, dtype)) {
    throw new HorovodError('ERR_HVD_INVALID_DTYPE', `alloc(): there is no dtype ${describe(dtype)}.`);
  }
  const { bytes, arrays } = dtypes[dtype];
  const length = elementsIn(shape);
  const buffer = allocated(context, length * bytes);
  return { data: new (arrays[0] as TypedArrayConstructor)(buffer, 0, length), shape, dtype };
}

function allocated(context: AllocatingRank, bytes: number): ArrayBufferLike {
  try {
    return context.alloc(bytes);
  } catch (error) {
    if (HorovodError.is(error)) throw error;
    const message = `alloc(): rank ${context.world.rank} has no memory left for ${bytes} bytes.`;
    throw new HorovodError('ERR_HVD_OUT_OF_MEMORY', message, { cause: error });
  }
}
