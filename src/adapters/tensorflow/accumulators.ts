// Optimizers of TensorFlow.js and the state they keep: lists of *accumulators* (momentum, Adam's moments …), one for each
// variable by its place in the list of gradients, which may have gaps; single variables (Adam's accBeta1); numbers. The fields
// are private in TensorFlow.js's declarations, and the same in all its optimizers.

import * as tf from '@tensorflow/tfjs';
import { invalid } from '../../operations/check-options.ts';
import { describe } from '../../tensor/tensor.ts';

export interface OptimizerVariable {
  originalName: string;
  variable: tf.Variable;
}

export type Accumulators = (OptimizerVariable | null | undefined)[];
export type Fields = Record<string, unknown>;

/** TensorFlow.js implements instanceof by looking at methods, and fails on undefined. */
export function checkOptimizer(optimizer: unknown, what: string): void {
  if (typeof optimizer === 'object' && optimizer !== null && optimizer instanceof tf.Optimizer) return;
  const hint =
    typeof optimizer === 'string'
      ? `. Write tf.train.${optimizer}(…); after model.compile({ optimizer: '${optimizer}', … }) you can also write ` +
        'hvd.DistributedOptimizer(model.optimizer)'
      : '';
  throw invalid(
    what,
    `expected an optimizer of TensorFlow.js (tf.train.adam(…)), not ${describe(optimizer)}${hint}`,
  );
}

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
