// Variables as a part of a state: a commit keeps a reference to each variable's data (reference.ts), and going back assigns it again.
// Local variables are each rank's own: only a rank that has just joined takes those of the root.

import { createHash } from 'node:crypto';
import type * as tf from '@tensorflow/tfjs';
import type { StatePart, SyncPlan } from '../../../elastic/runner.ts';
import { HorovodError } from '../../../errors.ts';
import { bytesOf } from '../../../tensor/tensor.ts';
import { broadcastVariables } from '../broadcast-variables.ts';
import { readTensor } from '../tensor-access.ts';
import { assignAndDispose } from '../tensor-operands.ts';
import { References } from './reference.ts';

export interface VariableSource {
  /** All variables of the state, in the same order on all ranks. */
  readonly variables: readonly tf.Variable[];
  /** Those of them that each rank trains by itself. */
  localVariables(): ReadonlySet<tf.Variable>;
}

export class ReferencePart implements StatePart {
  readonly hasSlots = true;
  readonly #source: VariableSource;
  readonly #variables: readonly tf.Variable[];
  /** By slot, then by place in the list of variables. */
  readonly #kept: References[] = [];

  constructor(source: VariableSource) {
    this.#source = source;
    this.#variables = source.variables;
  }

  save(slot = 0): void {
    const kept = this.#kept[slot] ?? new References();
    this.#kept[slot] = kept;
    const variables = this.#variables;
    for (let i = 0; i < variables.length; i++) kept.set(i, variables[i] as tf.Variable);
  }

  restore(slot = 0): void {
    const kept = this.#kept[slot];
    if (kept === undefined) return;
    this.#variables.forEach((variable, i) => {
      assign(variable, kept, i);
    });
  }

  forget(slot: number): void {
    this.#kept[slot]?.cut(0);
  }

  async sync(root: number, { lacking, isNewcomer }: SyncPlan): Promise<void> {
    if (lacking.length === 0) return;
    const locals = this.#source.localVariables();
    const own = isNewcomer ? [] : this.#variables.filter((variable) => locals.has(variable));
    const values = new References();
    own.forEach((variable, i) => {
      values.set(i, variable);
    });
    try {
      await broadcastVariables(this.#variables, root);
      own.forEach((variable, i) => {
        assign(variable, values, i);
      });
    } finally {
      values.cut(0);
    }
  }

  digest(): string {
    const hash = createHash('sha256');
    const locals = this.#source.localVariables();
    for (const variable of this.#variables) {
      if (!locals.has(variable)) hash.update(bytesOf(readTensor(variable)));
    }
    return hash.digest('hex');
  }
}

function assign(variable: tf.Variable, references: References, place: number): void {
  if (variable.isDisposed) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `restore(): variable "${variable.name}" of the state has been disposed. Build models before the state, and keep them as long.`,
      { tensor: variable.name },
    );
  }
  if (!references.isOf(place, variable)) assignAndDispose(variable, references.tensor(place));
}
