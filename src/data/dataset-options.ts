// Options of the methods of Dataset, their checks, and the types of batches.

import { checkNames, invalid } from '../operations/check-options.ts';
import { describe, type Tensor } from '../tensor/tensor.ts';

/** What a value becomes in a batch: numbers and tensors get a first dimension, byte strings and texts become lists. */
export type BatchValue<V> = V extends number | boolean | Tensor | Float32Array | Float64Array | Int32Array
  ? Tensor
  : V extends string | Uint8Array
    ? V[]
    : unknown;
/** A batch of elements. */
export type BatchOf<T> = T extends number | boolean | string | Uint8Array | Tensor
  ? BatchValue<T>
  : { [K in keyof T]: BatchValue<T[K]> };

/** Options of batch(). */
export interface BatchOptions {
  /** Leave out the last batch of an epoch if it is not full. */
  dropRemainder?: boolean | undefined;
  /** Samples of all ranks together per step, however many ranks there are; instead of `size` per rank. */
  globalSize?: number | undefined;
}

/** Options of paddedBatch(). */
export interface PaddedBatchOptions extends BatchOptions {
  /** What values are padded with, by column. Default: 0. */
  padding?: Readonly<Record<string, number>> | undefined;
}

/** Options of bucketByLength(). */
export interface BucketOptions {
  /** Growing lengths that divide the elements into one bucket more than there are boundaries. */
  boundaries: readonly number[];
  /** Of each bucket; or one for all. */
  batchSizes: readonly number[] | number;
  padding?: Readonly<Record<string, number>> | undefined;
}

export function checkedBatch(
  size: number,
  { dropRemainder = false, globalSize }: BatchOptions,
  what: string,
): { size: number; dropRemainder: boolean; globalSize: number | null } {
  checkWhole(size, 1, what, 'size');
  if (globalSize !== undefined) checkWhole(globalSize, 1, what, 'globalSize');
  return { size, dropRemainder, globalSize: globalSize ?? null };
}

export function checkWhole(value: unknown, min: number, what: string, name: string): void {
  if (Number.isSafeInteger(value) && (value as number) >= min) return;
  throw invalid(what, `${name} is a whole number from ${min}, not ${describe(value)}`);
}

/** Of bucketByLength(). */
export function checkedBuckets(options: BucketOptions): {
  boundaries: number[];
  batchSizes: number[];
  padding: Readonly<Record<string, number>>;
} {
  const what = 'bucketByLength()';
  checkNames(options, ['boundaries', 'batchSizes', 'padding'], what);
  const { boundaries, batchSizes, padding = {} } = options;
  const isGrowing =
    Array.isArray(boundaries) &&
    boundaries.every((each: number, place) => each > ((boundaries as number[])[place - 1] ?? 0));
  if (!isGrowing) throw invalid(what, `boundaries are growing lengths, not ${describe(boundaries)}`);
  const sizes =
    typeof batchSizes === 'number'
      ? new Array<number>(boundaries.length + 1).fill(batchSizes)
      : [...batchSizes];
  if (sizes.length !== boundaries.length + 1) {
    throw invalid(
      what,
      `${boundaries.length} boundaries make ${boundaries.length + 1} buckets; batchSizes has ${sizes.length}`,
    );
  }
  for (const size of sizes) checkWhole(size, 1, what, 'a batch size');
  return { boundaries: [...boundaries], batchSizes: sizes, padding };
}
