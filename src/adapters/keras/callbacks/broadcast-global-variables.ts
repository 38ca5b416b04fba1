// Gives all ranks the weights and the optimizer state of one rank, once for each model, before its first gradient. A new optimizer
// has no state yet, which is a state like any other; one that was loaded from a file has.

import type * as tf from '@tensorflow/tfjs';
import { currentContext } from '../../context.ts';
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
  /**
   * Models whose weights were broadcast, and in which context: one callback may be used for several. In an elastic job ranks may have joined
   * since then, and all take part or none.
   */
  readonly #done = new WeakMap<tf.LayersModel, object>();

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

  override async onTrainBegin(logs?: FitLogs): Promise<void> {
    await super.onTrainBegin(logs);
    const context = currentContext();
    if (this.#done.get(this.model) === context) return;
    this.#done.set(this.model, context);
    const weights = this.model.weights.map((weight) => variableOf(weight, what));
    // Blocking, as the reduction of gradients in fit() is: if a rank without this callback trains, that deadlock is detected and
    // reported at once.
    broadcastVariablesSync(
      weights.filter((weight) => !this.#localVariables.has(weight)),
      this.#rootRank,
      { name: `${what}.weights` },
    );
    broadcastOptimizerStateSync(this.optimizer, this.#rootRank, { name: `${what}.optimizer` });
  }
}
