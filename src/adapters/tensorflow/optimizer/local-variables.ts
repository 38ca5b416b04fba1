// Local variables: every rank trains its own, so their gradients are not reduced (the local layers of a partly distributed
// model). The others are *global*. And what users may give where a variable is wanted.

import * as tf from '@tensorflow/tfjs';
import { invalid } from '../../../operations/check-options.ts';
import { describe } from '../../../tensor/tensor.ts';
import type { Gradients } from './gradients.ts';

/** A tf.Variable, or the LayerVariable of tf.layers around one. */
export type AnyVariable = tf.Variable | tf.LayerVariable;

/** The tf.Variable that is meant. */
export function variableOf(given: AnyVariable, what: string): tf.Variable {
  if (given instanceof tf.Variable) return given;
  // LayerVariable.read() returns the variable, although it is declared to return a tensor.
  if (given instanceof tf.LayerVariable) return given.read() as tf.Variable;
  throw invalid(what, `expected a tf.Variable or a LayerVariable, not ${describe(given)}`);
}

/** What tf.variableGrads() takes without a list. */
export function trainableVariables(): tf.Variable[] {
  return Object.values(tf.engine().registeredVariables).filter(({ trainable }) => trainable);
}

export type LocalLayers = tf.layers.Layer | readonly tf.layers.Layer[];

export class LocalVariables {
  readonly #variables = new Set<tf.Variable>();
  readonly #layers: tf.layers.Layer[] = [];

  add(variable: AnyVariable, what: string): void {
    this.#variables.add(variableOf(variable, what));
  }

  /** A layer may not have been built yet; its weights are looked up when they are needed. */
  addLayers(layers: LocalLayers | undefined, what: string): void {
    for (const layer of [layers ?? []].flat()) {
      if (!(layer instanceof tf.layers.Layer)) {
        throw invalid(what, `localLayers is a layer of tf.layers or a list of them, not ${describe(layer)}`);
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

  /** The global ones of these variables. */
  globalOf(variables: readonly tf.Variable[]): tf.Variable[] {
    const locals = this.current();
    return variables.filter((variable) => !locals.has(variable));
  }

  /** The gradients of the global ones of these variables. */
  globalGradients(variables: readonly tf.Variable[], gradients: Gradients): Gradients {
    const locals = this.current();
    return gradients.filter((_, place) => !locals.has(variables[place] as tf.Variable));
  }

  /** The reduced global gradients among the local ones. These are divided by `divisor`, and used up if it is not 1. */
  merge(
    variables: readonly tf.Variable[],
    gradients: Gradients,
    reduced: Gradients,
    divisor: number,
  ): Gradients {
    const locals = this.current();
    let next = 0;
    return variables.map((variable, place) => {
      if (!locals.has(variable)) return reduced[next++];
      const gradient = gradients[place];
      if (gradient === undefined || divisor === 1) return gradient;
      const scaled = tf.div(gradient, divisor);
      gradient.dispose();
      return scaled;
    });
  }
}
