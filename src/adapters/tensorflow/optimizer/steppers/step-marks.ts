// Tells the context when a training step has ended, once for each step: passes that are only summed up
// (backwardPassesPerStep) are part of the step that uses them. How many samples a step had is known only if one of our Keras
// callbacks is in use, which sees the batches.

import { currentContext } from '../../../context.ts';

/** What fit() tells callbacks about a batch. The size is filled in when the batch begins, or right after that. */
export type BatchLogs = Readonly<Record<string, unknown>>;

export class StepMarks {
  #batch: BatchLogs | undefined;
  #samples: number | undefined;

  /** The next batch. Several callbacks may announce the same one. */
  expect(batch: BatchLogs): void {
    this.#batch = batch;
  }

  passEnded(): void {
    const size = this.#batch?.['size'];
    this.#batch = undefined;
    if (typeof size === 'number') this.#samples = (this.#samples ?? 0) + size;
  }

  stepEnded(): void {
    this.passEnded();
    const samples = this.#samples;
    this.#samples = undefined;
    currentContext().reportStep(samples);
  }
}
