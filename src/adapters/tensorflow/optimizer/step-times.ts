// Where the time of a training step goes, for subscribers of the diagnostics channel `horovod.tensorflow.step` (bench/training,
// and the timeline while it is on). Without subscribers nothing is measured.

import { channel } from 'node:diagnostics_channel';

export interface StepTimes {
  forwardMs: number;
  backwardMs: number;
  /** Reducing that backpropagation did not hide, waiting for other ranks included. */
  exposedCommunicationMs: number;
  updateMs: number;
}

/** One stretch of a phase, in milliseconds of performance.now(). */
export interface StepPhase {
  readonly phase: keyof StepTimes;
  readonly fromMs: number;
  readonly toMs: number;
}

/** What is published. */
export interface PublishedStep extends StepTimes {
  /** In order of time. */
  readonly phases: readonly StepPhase[];
}

const steps = channel('horovod.tensorflow.step');

/** A stopwatch for one step; undefined without subscribers. */
export function timeStep(): StepTimer | undefined {
  return steps.hasSubscribers ? new StepTimer() : undefined;
}

export class StepTimer {
  readonly #times: StepTimes = { forwardMs: 0, backwardMs: 0, exposedCommunicationMs: 0, updateMs: 0 };
  readonly #phases: StepPhase[] = [];
  #since = performance.now();

  /** The time since the last call belongs to this phase. */
  end(phase: keyof StepTimes): void {
    const now = performance.now();
    this.#times[phase] += now - this.#since;
    this.#phases.push({ phase, fromMs: this.#since, toMs: now });
    this.#since = now;
  }

  /** The time since the last call belongs to no phase. */
  skip(): void {
    this.#since = performance.now();
  }

  publish(): void {
    const step: PublishedStep = { ...this.#times, phases: this.#phases };
    steps.publish(step);
  }
}
