// Tells the context when a training step has ended (context.steps, as markStep() does), once for each step: passes that are
// only summed up (backwardPassesPerStep) are part of the step that uses them. How many samples a step had is known where one
// of our Keras callbacks hears of the batches.

import { defaultContext } from '../../../context/default/default-context.ts';

/** What fit() tells callbacks of a batch. It fills in the size when the batch begins or, in fit(), right after that. */
export type BatchLogs = Readonly<Record<string, unknown>>;

export class StepMarks {
  #batch: BatchLogs | undefined;
  #samples: number | undefined;

  /** The batch that comes next. Several callbacks may say it of the same batch. */
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
    defaultContext().steps.report(samples);
  }
}
