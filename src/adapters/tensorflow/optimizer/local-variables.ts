// Local variables: those whose gradients stay on their rank, because every rank has its own (the layers of a
// partly distributed model). And what users may give where a variable is wanted.

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../../errors.ts';
import { describe } from '../../../tensor/tensor.ts';

/** A tf.Variable, or the LayerVariable of tf.layers around one. */
export type AnyVariable = tf.Variable | tf.LayerVariable;

/** The tf.Variable that is meant. */
export function variableOf(given: AnyVariable, what: string): tf.Variable {
  if (given instanceof tf.Variable) return given;
  // LayerVariable.read() gives the variable itself, declared as the tensor it is too.
  if (given instanceof tf.LayerVariable) return given.read() as tf.Variable;
  throw new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `${what}: expected a tf.Variable or a LayerVariable, not ${describe(given)}.`,
  );
}

/** What tf.variableGrads() takes without a list. */
export function trainableVariables(): tf.Variable[] {
  return Object.values(tf.engine().registeredVariables).filter(({ trainable }) => trainable);
}

export class LocalVariables {
  readonly #variables = new Set<tf.Variable>();
  readonly #layers: tf.layers.Layer[] = [];

  add(variable: AnyVariable, what: string): void {
    this.#variables.add(variableOf(variable, what));
  }

  /** A layer may not have been built yet; its weights are looked up when they are needed. */
  addLayers(layers: tf.layers.Layer | readonly tf.layers.Layer[] | undefined, what: string): void {
    const list = layers === undefined ? [] : Array.isArray(layers) ? layers : [layers];
    for (const layer of list) {
      if (!(layer instanceof tf.layers.Layer)) {
        throw new HorovodError(
          'ERR_HVD_INVALID_ARGUMENT',
          `${what}: localLayers is a layer of tf.layers or a list of them, not ${describe(layer)}.`,
        );
      }
      this.#layers.push(layer);
    }
  }

  /** The variables that are local now. */
  current(): ReadonlySet<tf.Variable> {
    if (this.#layers.length === 0) return this.#variables;
    const found = new Set(this.#variables);
    for (const layer of this.#layers) {
      for (const weight of layer.trainableWeights) found.add(weight.read() as tf.Variable);
    }
    return found;
  }
}
