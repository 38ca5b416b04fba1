// Gradients in the forms that TensorFlow.js has them: by the names of their variables, as an object or a list, or in the order
// of a list of variables, as they are used here. And whose they are: see Loss.

import * as tf from '@tensorflow/tfjs';
import { invalid } from '../../../operations/check-options.ts';
import { describe } from '../../../tensor/tensor.ts';
import { bulkMemory } from '../backend/tfjs-node-memory.ts';
import { readTensor } from '../tensor-access.ts';

/** One for each variable, in its order; undefined where the loss does not depend on the variable. */
export type Gradients = readonly (tf.Tensor | undefined)[];

/** What applyGradients() takes. */
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

/** The variables that the gradients belong to, in order. */
export function variablesOf(given: NamedGradients, what: string): tf.Variable[] {
  const { registeredVariables } = tf.engine();
  return entriesOf(given).map(({ name }) => {
    const variable = registeredVariables[name];
    if (variable !== undefined) return variable;
    throw invalid(what, `applyGradients() was given a gradient for "${name}", and there is no such variable`);
  });
}

/** As tf.variableGrads() gives them, in the order of the variables; `found` is what it gave. */
export function namedGradients(
  variables: readonly tf.Variable[],
  gradients: Gradients,
  found: tf.NamedTensorMap = {},
): tf.NamedTensorMap {
  const named: tf.NamedTensorMap = {};
  variables.forEach(({ name }, place) => {
    const gradient = gradients[place];
    if (gradient !== undefined) named[name] = gradient;
    // A variable that is not trainable is listed with null.
    else if (name in found) named[name] = null as unknown as tf.Tensor;
  });
  return named;
}

/** Copies a gradient's values. */
export function readInto(gradient: tf.Tensor, part: Float32Array): void {
  const memory = bulkMemory();
  if (memory !== undefined) memory.read([gradient], [part]);
  else part.set(readTensor(gradient) as Float32Array);
}

export function hasFiniteValues(gradient: tf.Tensor): boolean {
  return (readTensor(gradient) as Float32Array).every(Number.isFinite);
}

/**
 * A loss function that remembers the id of its last result. Tensors made by backpropagation have higher ids, and are ours to
 * use up. Not all gradients of tf.variableGrads() are such: a tf.customGrad() may return one tensor for two variables, or a
 * tensor that the user will use again.
 */
export class Loss {
  readonly compute: () => tf.Scalar;
  #id = Number.POSITIVE_INFINITY;

  constructor(f: () => tf.Scalar, what: string) {
    this.compute = () => {
      const loss = f();
      if (!(loss instanceof tf.Tensor)) {
        throw invalid(what, `the loss function returned ${describe(loss)}; it must return a tf.Scalar`);
      }
      this.#id = loss.id;
      return loss;
    };
  }

  /** The gradients found, in the order of the variables, all ours: the user's and repeated ones are cloned. */
  ownGradients(variables: readonly tf.Variable[], found: tf.NamedTensorMap): Gradients {
    const seen = new Set<tf.Tensor>();
    return variables.map(({ name }) => {
      const gradient = found[name] ?? undefined;
      if (gradient === undefined) return undefined;
      const isOurs = gradient.id > this.#id && !seen.has(gradient);
      seen.add(gradient);
      return isOurs ? gradient : gradient.clone();
    });
  }
}
