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
import { Reference } from './reference.ts';

export interface VariableSource {
  /** All variables of the state, in the same order on all ranks. */
  variables(): readonly tf.Variable[];
  /** Those of them that each rank trains by itself. */
  localVariables(): ReadonlySet<tf.Variable>;
}

export class ReferencePart implements StatePart {
  readonly #source: VariableSource;
  #kept = new Map<tf.Variable, Reference>();

  constructor(source: VariableSource) {
    this.#source = source;
  }

  save(): void {
    const before = this.#kept;
    this.#kept = new Map();
    for (const variable of this.#source.variables()) {
      const old = before.get(variable);
      const isSame = old?.isOf(variable) === true;
      this.#kept.set(variable, isSame ? old : new Reference(variable));
      if (isSame) before.delete(variable);
    }
    for (const reference of before.values()) reference.release();
  }

  restore(): void {
    for (const [variable, reference] of this.#kept) assign(variable, reference);
  }

  async sync(root: number, { lacking, isNewcomer }: SyncPlan): Promise<void> {
    if (lacking.length === 0) return;
    const locals = this.#source.localVariables();
    const own = isNewcomer ? [] : this.#source.variables().filter((variable) => locals.has(variable));
    const values = own.map((variable) => new Reference(variable));
    try {
      await broadcastVariables(this.#source.variables(), root);
      own.forEach((variable, i) => {
        assign(variable, values[i] as Reference);
      });
    } finally {
      for (const value of values) value.release();
    }
  }

  digest(): string {
    const hash = createHash('sha256');
    const locals = this.#source.localVariables();
    for (const variable of this.#source.variables()) {
      if (!locals.has(variable)) hash.update(bytesOf(readTensor(variable)));
    }
    return hash.digest('hex');
  }
}

function assign(variable: tf.Variable, reference: Reference): void {
  if (variable.isDisposed) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `restore(): variable "${variable.name}" of the state has been disposed. Build models before the state, and keep them as long.`,
      { tensor: variable.name },
    );
  }
  if (!reference.isOf(variable)) assignAndDispose(variable, reference.tensor());
}
