// Checks and sizes that several collectives share.

import { dtypes } from '../../tensor/dtype.ts';
import { describe, elementsIn, type Operand, operandOf, type TensorLike } from '../../tensor/tensor.ts';
import { invalidArgument } from '../options.ts';
import type { Members } from '../plan.ts';

export function operandsOf(xs: readonly TensorLike[], what: string): Operand[] {
  if (Array.isArray(xs)) return xs.map((x) => operandOf(x, what));
  throw invalidArgument(`${what} takes a list of tensors, not ${describe(xs)}.`);
}

export function checkNotScalar({ shape }: Operand, what: string): void {
  if (shape.length > 0) return;
  throw invalidArgument(`${what} takes a tensor with a first dimension, not a scalar.`);
}

/** The root's place in the process set. */
export function rootIndexOf(rootRank: number, { ranks }: Members, what: string): number {
  const root = ranks.indexOf(rootRank);
  if (root >= 0) return root;
  throw invalidArgument(
    `${what}: root rank ${describe(rootRank)} is not one of the ranks of the process set, ${ranks.join(', ')}.`,
  );
}

/** A row is what one index of the first dimension selects. */
export function bytesPerRow({ shape, dtype }: Operand): number {
  return elementsIn(shape.slice(1)) * dtypes[dtype].bytes;
}

/** The shape of so many bytes of rows like the operand's. */
export function shapeOfRows(operand: Operand, bytes: number): number[] {
  const rowBytes = bytesPerRow(operand);
  return [rowBytes === 0 ? 0 : bytes / rowBytes, ...operand.shape.slice(1)];
}
