// What a lossy compressor has not sent yet of the gradients of a DistributedGradientTape, as a part of a state. That of an optimizer
// is in optimizer-part.ts.

import type * as tf from '@tensorflow/tfjs';
import type { StatePart, SyncPlan } from '../../../elastic/runner.ts';
import type { DistributedGradientTape } from '../optimizer/distributed-gradient-tape.ts';
import { errorFeedbackOf } from '../optimizer/error-feedback.ts';

export class ResidualsPart implements StatePart {
  readonly hasSlots = true;
  readonly #tape: DistributedGradientTape;
  readonly #variables: readonly tf.Variable[];

  /** `variables`: of the state, in the same order on all ranks. */
  constructor(tape: DistributedGradientTape, variables: readonly tf.Variable[]) {
    this.#tape = tape;
    this.#variables = variables;
  }

  save(slot = 0): void {
    errorFeedbackOf(this.#tape)?.save(slot);
  }

  restore(slot = 0): void {
    errorFeedbackOf(this.#tape)?.goBack(slot);
  }

  forget(slot: number): void {
    errorFeedbackOf(this.#tape)?.forget(slot);
  }

  async sync(root: number, { lacking }: SyncPlan): Promise<void> {
    await errorFeedbackOf(this.#tape)?.sync(root, lacking, this.#variables);
  }

  digest(): string {
    return errorFeedbackOf(this.#tape)?.digest(this.#variables) ?? '';
  }
}
