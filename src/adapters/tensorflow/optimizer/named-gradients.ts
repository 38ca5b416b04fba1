// What applyGradients() of TensorFlow.js takes: gradients by the names of their variables, as an object or a list.

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../../errors.ts';

export type NamedGradients = Parameters<tf.Optimizer['applyGradients']>[0];

export interface NamedGradient {
  readonly name: string;
  readonly tensor: tf.Tensor;
}

export function entriesOf(given: NamedGradients): NamedGradient[] {
  return Array.isArray(given) ? given : Object.entries(given).map(([name, tensor]) => ({ name, tensor }));
}

/** Whether there are gradients of these variables only, of all or some of them. */
export function areOf(given: NamedGradients, variables: readonly tf.Variable[]): boolean {
  const names = new Set(variables.map(({ name }) => name));
  return entriesOf(given).every(({ name }) => names.has(name));
}

/** The variables that are meant, in order. */
export function variablesOf(given: NamedGradients, what: string): tf.Variable[] {
  const { registeredVariables } = tf.engine();
  return entriesOf(given).map(({ name }) => {
    const variable = registeredVariables[name];
    if (variable !== undefined) return variable;
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what}: applyGradients() was given a gradient for "${name}", and there is no such variable.`,
    );
  });
}
