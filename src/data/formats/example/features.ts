// What a reader expects of an Example, with TensorFlow's names. Features are plain data: they are part of a pipeline's plan and
// travel to other threads and processes.

import { HorovodError } from '../../../errors.ts';
import { type DType, dtypes } from '../../../tensor/dtype.ts';
import { checkShape, describe, elementsIn } from '../../../tensor/tensor.ts';

/**
 * The type a feature is read as. Lists of int64 can be read as any integer type their values fit in, lists of float as float32
 * or float64. Byte strings are 'string'; a feature of fixed shape can read them as raw little-endian values of any type.
 */
export type FeatureDType = DType | 'string';

export interface FixedLenFeature {
  readonly kind: 'fixed';
  readonly shape: readonly number[];
  readonly dtype: FeatureDType;
  /** The value where an Example lacks the feature: one for all elements, or one for each. */
  readonly default?: number | string | readonly number[] | undefined;
}

export interface VarLenFeature {
  readonly kind: 'variable';
  readonly dtype: FeatureDType;
}

export interface FixedLenSequenceFeature {
  readonly kind: 'sequence';
  readonly shape: readonly number[];
  readonly dtype: FeatureDType;
}

export type Feature = FixedLenFeature | VarLenFeature | FixedLenSequenceFeature;
export type Features = Readonly<Record<string, Feature>>;

/** Every Example has as many values as the shape says; without a default, a missing feature is an error. */
export function FixedLenFeature(
  shape: readonly number[],
  dtype: FeatureDType,
  defaultValue?: number | string | readonly number[],
): FixedLenFeature {
  checkFeature('FixedLenFeature', dtype, shape);
  if (defaultValue !== undefined) checkDefault(defaultValue, dtype, elementsIn(shape));
  return { kind: 'fixed', shape: [...shape], dtype, default: defaultValue };
}

/** Any number of values; none if the feature is missing. */
export function VarLenFeature(dtype: FeatureDType): VarLenFeature {
  checkFeature('VarLenFeature', dtype, []);
  return { kind: 'variable', dtype };
}

/** Any number of entries of one shape, which becomes the rest of the tensor's shape; none if the feature is missing. */
export function FixedLenSequenceFeature(
  shape: readonly number[],
  dtype: FeatureDType,
): FixedLenSequenceFeature {
  checkFeature('FixedLenSequenceFeature', dtype, shape);
  return { kind: 'sequence', shape: [...shape], dtype };
}

export function checkFeatures(features: unknown, what: string): asserts features is Features {
  const isOne = (each: unknown) =>
    typeof each === 'object' && each !== null && 'kind' in each && 'dtype' in each;
  if (typeof features !== 'object' || features === null || !Object.values(features).every(isOne)) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what} takes an object of features, such as { image: FixedLenFeature([28, 28], 'uint8') }, not ${describe(features)}.`,
    );
  }
}

function checkFeature(what: string, dtype: FeatureDType, shape: readonly number[]): void {
  if (dtype !== 'string' && !Object.hasOwn(dtypes, dtype)) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what}: dtype is 'string' or one of ${Object.keys(dtypes).join(', ')}, not ${describe(dtype)}.`,
    );
  }
  checkShape(shape, what);
}

function checkDefault(value: unknown, dtype: FeatureDType, elements: number): void {
  const isFitting =
    dtype === 'string'
      ? typeof value === 'string'
      : typeof value === 'number' || (Array.isArray(value) && value.length === elements);
  if (isFitting) return;
  const wanted = dtype === 'string' ? 'a string' : `a number or a list of ${elements} numbers`;
  throw new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `FixedLenFeature: the default is ${wanted}, not ${describe(value)}.`,
  );
}
