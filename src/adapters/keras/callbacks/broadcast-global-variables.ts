// Gives all ranks the weights and the optimizer state of one rank, once, at the end of the first batch: before it
// optimizers of TensorFlow.js have no state, and a model may not be built.

import type * as tf from '@tensorflow/tfjs';
import { broadcastVariablesSync } from '../../tensorflow/broadcast-variables.ts';
import { type AnyVariable, variableOf } from '../../tensorflow/optimizer/local-variables.ts';
import { broadcastOptimizerStateSync } from '../../tensorflow/optimizer-state.ts';
import { type FitLogs, HorovodCallback } from './horovod-callback.ts';

export interface BroadcastGlobalVariablesOptions {
  /** Weights that every rank keeps as they are. */
  localVariables?: AnyVariable | readonly AnyVariable[] | undefined;
}

const what = 'BroadcastGlobalVariablesCallback';

export class BroadcastGlobalVariablesCallback extends HorovodCallback {
  readonly #rootRank: number;
  readonly #localVariables = new Set<tf.Variable>();
  #isDone = false;

  constructor(rootRank = 0, options: BroadcastGlobalVariablesOptions = {}) {
    super();
    this.#rootRank = rootRank;
    const { localVariables = [] } = options;
    for (const variable of Array.isArray(localVariables) ? localVariables : [localVariables]) {
      this.registerLocalVar(variable);
    }
  }

  /** From now on every rank keeps its value of this weight. */
  registerLocalVar(variable: AnyVariable): void {
    this.#localVariables.add(variableOf(variable, `${what}: localVariables`));
  }

  override async onBatchEnd(batch: number, logs?: FitLogs): Promise<void> {
    if (!this.#isDone) {
      this.#isDone = true;
      const weights = this.model.weights.map((weight) => variableOf(weight, what));
      // Blocking, as the reduction of gradients in fit() is: if a rank without this callback goes on training, that deadlock
      // is detected and reported at once.
      broadcastVariablesSync(
        weights.filter((weight) => !this.#localVariables.has(weight)),
        this.#rootRank,
        { name: `${what}.weights` },
      );
      broadcastOptimizerStateSync(this.optimizer, this.#rootRank, { name: `${what}.optimizer` });
    }
    await super.onBatchEnd(batch, logs);
  }
}
