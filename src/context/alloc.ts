// alloc(): tensors in memory the plane can reach without a copy.

import { HorovodError } from '../errors.ts';
import { type DType, dtypes, type TypedArrayConstructor } from '../tensor/dtype.ts';
import { checkShape, describe, elementsIn, type Tensor } from '../tensor/tensor.ts';
import type { HorovodContext } from './context.ts';

/** A zeroed tensor; garbage collected like any other. */
export function alloc(
  context: HorovodContext,
  lengthOrShape: number | readonly number[],
  dtype: DType = 'float32',
): Tensor {
  const shape = typeof lengthOrShape === 'number' ? [lengthOrShape] : [...lengthOrShape];
  checkShape(shape, 'alloc()');
  if (!Object.hasOwn(dtypes, dtype)) {
    throw new HorovodError('ERR_HVD_INVALID_DTYPE', `alloc(): there is no dtype ${describe(dtype)}.`);
  }
  const { bytes, arrays } = dtypes[dtype];
  const length = elementsIn(shape);
  const buffer = context.plane.alloc(length * bytes);
  return { data: new (arrays[0] as TypedArrayConstructor)(buffer, 0, length), shape, dtype };
}
