// Sums gradients over several passes before they are reduced (backwardPassesPerStep).

import * as tf from '@tensorflow/tfjs';
import type { Aggregation as AggregationRules } from '../../../gradient-options.ts';
import type { Gradients } from '../gradients.ts';

export class Aggregation {
  readonly #rules: AggregationRules;
  readonly #sums = new Map<tf.Variable, tf.Tensor>();
  #passes = 0;

  constructor(rules: AggregationRules) {
    this.#rules = rules;
  }

  /** Uses up the gradients. */
  add(variables: readonly tf.Variable[], gradients: Gradients): void {
    this.#passes++;
    variables.forEach((variable, place) => {
      const gradient = gradients[place];
      if (gradient === undefined) return;
      const sum = this.#sums.get(variable);
      const next = sum === undefined ? gradient : tf.add(sum, gradient);
      // Kept: fit() runs each step inside a tf.tidy().
      this.#sums.set(variable, tf.keep(next));
      if (sum === undefined) return;
      sum.dispose();
      gradient.dispose();
    });
  }

  get isEmpty(): boolean {
    return this.#passes === 0;
  }

  get isComplete(): boolean {
    return this.#passes >= this.#rules.backwardPassesPerStep;
  }

  /** The sums so far, as clones, which belong to the caller. */
  peek(variables: readonly tf.Variable[]): Gradients {
    return variables.map((variable) => this.#sums.get(variable)?.clone());
  }

  /** The sums, or means, of the passes; they belong to the caller now. */
  take(variables: readonly tf.Variable[]): Gradients {
    const passes = this.#passes;
    const taken = variables.map((variable) => {
      const sum = this.#sums.get(variable);
      this.#sums.delete(variable);
      if (sum === undefined) return undefined;
      // A new tensor even where nothing is divided: a sum may be older than the loss of the last pass, and the reducer would
      // take it for a tensor of the user's.
      const taken = this.#rules.averageAggregatedGradients ? tf.div(sum, passes) : sum.clone();
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
