// Tells the context when a training step has ended (context.steps, as markStep() does), once for each step: passes that are
// only summed up (backwardPassesPerStep) are part of the step that uses them. How many samples a step had is known where one
// of our Keras callbacks hears of the batches.

import { defaultContext } from '../../context/default-context.ts';

export class StepMarks {
  #batch: number | undefined;
  #samples: number | undefined;

  /** The batch that comes next has so many samples. Several callbacks may say it of the same batch. */
  expect(samples: number): void {
    this.#batch = samples;
  }

  passEnded(): void {
    if (this.#batch !== undefined) this.#samples = (this.#samples ?? 0) + this.#batch;
    this.#batch = undefined;
  }

  stepEnded(): void {
    this.passEnded();
    const samples = this.#samples;
    this.#samples = undefined;
    defaultContext().steps.mark(samples);
  }
}
