// Lists of variables on several ranks, compared before anything is sent. Variables are matched by their place in the list, not
// by their name: TensorFlow.js numbers layers per process (dense_Dense1, dense_Dense2 …), so a rank that has built one model
// more has other names.

import type * as tf from '@tensorflow/tfjs';

export interface VariableDescription {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: tf.DataType;
}

export function describeVariable({ name, shape, dtype }: VariableDescription): VariableDescription {
  return { name, shape, dtype };
}

export function isAlike(
  a: Pick<VariableDescription, 'shape' | 'dtype'>,
  b: Pick<VariableDescription, 'shape' | 'dtype'>,
): boolean {
  return a.dtype === b.dtype && a.shape.join() === b.shape.join();
}

/** How the first list that differs from the first rank's does so; every rank finds the same answer. */
export function firstDifference(
  lists: readonly (readonly VariableDescription[])[],
  ranks: readonly number[],
): { text: string; rank: number; name: string } | undefined {
  const [model = [], ...others] = lists;
  const length = Math.max(...lists.map((list) => list.length));
  for (let i = 0; i < length; i++) {
    for (const [place, list] of others.entries()) {
      const [a, b] = [model[i], list[i]];
      if (a === b || (a !== undefined && b !== undefined && isAlike(a, b))) continue;
      const [first, second] = [ranks[0] as number, ranks[place + 1] as number];
      const text = `variable ${i + 1} is ${show(a, model)} on rank ${first} and ${show(b, list)} on rank ${second}`;
      return { text, rank: second, name: (a ?? b)?.name ?? '' };
    }
  }
  return undefined;
}

function show(description: VariableDescription | undefined, list: readonly unknown[]): string {
  if (description === undefined) return `missing (there are ${list.length})`;
  return `"${description.name}", ${description.dtype} [${description.shape.join(', ')}],`;
}
