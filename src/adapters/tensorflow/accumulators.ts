// The state of TensorFlow.js optimizers as they keep it: lists of *accumulators* (momentum, Adam's moments …), one for each
// variable by its place in the list of gradients, which may have gaps; single variables (Adam's accBeta1); numbers. Fields are
// private in TensorFlow.js's declarations, and all its optimizers have them alike.

import * as tf from '@tensorflow/tfjs';

export interface OptimizerVariable {
  originalName: string;
  variable: tf.Variable;
}

export type Accumulators = (OptimizerVariable | null | undefined)[];
export type Fields = Record<string, unknown>;

export function isAccumulators(field: string, value: unknown): value is Accumulators {
  if (!Array.isArray(value)) return false;
  const entries = Array.from(value).filter((entry) => entry != null);
  if (entries.length === 0) return field.startsWith('acc');
  return entries.every((entry) => typeof entry === 'object' && entry.variable instanceof tf.Variable);
}

/** All lists of an optimizer, by field, in the order of its fields. */
export function accumulatorsOf(optimizer: tf.Optimizer): [field: string, list: Accumulators][] {
  return Object.entries(optimizer as unknown as Fields).filter((entry): entry is [string, Accumulators] =>
    isAccumulators(...entry),
  );
}
