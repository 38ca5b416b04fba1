// How much of each step this rank does nothing but communicate, for its status page: adapters measure it, and publish it on a diagnostics
// channel. The average is that of the last steps.

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { OperationObserver } from '../../engine/observer.ts';
import type { StepMark } from '../../engine/step-clock.ts';
import type { StatusWriter } from './status-writer.ts';

/** See StepTimes of tensorflow/optimizer/step-times.ts. */
const stepChannel = 'horovod.tensorflow.step';
/** The average is over so many steps. */
const steps = 100;
/** Steps between two updates of the page. */
const pageSteps = 10;

export class ExposedTime implements OperationObserver {
  readonly name = 'the time of communication';
  readonly #status: Pick<StatusWriter, 'set'>;
  readonly #times = new Float64Array(steps);
  #count = 0;
  #sum = 0;
  readonly #onStep = (message: unknown): void => {
    const { exposedCommunicationMs } = message as { exposedCommunicationMs?: unknown };
    if (typeof exposedCommunicationMs === 'number') this.#add(exposedCommunicationMs);
  };

  constructor(status: Pick<StatusWriter, 'set'>) {
    this.#status = status;
    subscribe(stepChannel, this.#onStep);
  }

  step({ step }: StepMark): void {
    if (step % pageSteps !== 0 || this.#count === 0) return;
    const average = Math.max(this.#sum, 0) / Math.min(this.#count, steps);
    this.#status.set({ exposedMsPerStep: Number(average.toPrecision(4)) });
  }

  close(): void {
    unsubscribe(stepChannel, this.#onStep);
  }

  #add(ms: number): void {
    const place = this.#count++ % steps;
    this.#sum += ms - (this.#times[place] as number);
    this.#times[place] = ms;
  }
}
