// Sums gradients over several passes before they are reduced (backwardPassesPerStep).

import * as tf from '@tensorflow/tfjs';
import type { Gradients } from './gradient-reducer.ts';

export class Aggregation {
  readonly #passesPerStep: number;
  readonly #averages: boolean;
  readonly #sums = new Map<tf.Variable, tf.Tensor>();
  #passes = 0;

  constructor(passesPerStep: number, averages: boolean) {
    this.#passesPerStep = passesPerStep;
    this.#averages = averages;
  }

  /** Uses up the gradients. */
  add(variables: readonly tf.Variable[], gradients: Gradients): void {
    this.#passes++;
    variables.forEach((variable, place) => {
      const gradient = gradients[place];
      if (gradient === undefined) return;
      const sum = this.#sums.get(variable);
      const next = sum === undefined ? gradient : tf.add(sum, gradient);
      // Kept: fit() runs each step inside a tf.tidy() of its own.
      this.#sums.set(variable, tf.keep(next));
      if (sum === undefined) return;
      sum.dispose();
      gradient.dispose();
    });
  }

  get isComplete(): boolean {
    return this.#passes >= this.#passesPerStep;
  }

  /** The sums so far, as tensors of the caller's that share memory with them. */
  peek(variables: readonly tf.Variable[]): Gradients {
    return variables.map((variable) => this.#sums.get(variable)?.clone());
  }

  /** The sums, or means, of the passes; they are the caller's now. */
  take(variables: readonly tf.Variable[]): Gradients {
    const passes = this.#passes;
    const taken = variables.map((variable) => {
      const sum = this.#sums.get(variable);
      this.#sums.delete(variable);
      if (sum === undefined) return undefined;
      // New tensors even where nothing is divided: a sum may be older than the loss of the last pass, which looks to the
      // reducer like a tensor of the user's.
      const taken = this.#averages ? tf.div(sum, passes) : sum.clone();
      sum.dispose();
      return taken;
    });
    this.dispose(); // sums of variables that are not in the list any more
    return taken;
  }

  dispose(): void {
    for (const sum of this.#sums.values()) sum.dispose();
    this.#sums.clear();
    this.#passes = 0;
  }
}
