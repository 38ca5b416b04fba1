// Keeps the averages of the straggler report in this rank's status page, and warns, on rank 0, of a rank that the
// others wait for too long.

import type { Log } from '../../console/log.ts';
import type { StepClock } from '../../engine/step-clock.ts';
import type { StatusWriter } from '../status/status-writer.ts';
import {
  findStraggler,
  isTooLate,
  type Straggler,
  stragglerSteps,
  stragglerText,
  WaitMeter,
} from './straggler.ts';

/** Steps between two updates of the page. */
const pageSteps = 10;
/** The same warning comes again after so many steps. */
const quietSteps = 1000;

export class StragglerWatch {
  readonly meter: WaitMeter = new WaitMeter();
  readonly #status: StatusWriter;
  #warned: { readonly rank: number; readonly step: number } | undefined;

  constructor(steps: StepClock, status: StatusWriter, options: { rank: number; percent: number; log: Log }) {
    this.#status = status;
    steps.subscribe(({ step, atMs }) => {
      this.meter.endStep(atMs);
      if (step % pageSteps !== 0) return;
      const averages = this.meter.averages();
      if (averages === undefined) return;
      this.#status.set({ waitMsPerStep: Number(averages.waitMs.toPrecision(4)) });
      if (options.rank === 0 && options.percent > 0 && step % stragglerSteps === 0)
        this.#check(step, options);
    });
  }

  /** Undefined: not known yet. */
  find(): Straggler | undefined {
    const averages = this.meter.averages();
    return averages === undefined ? undefined : findStraggler(this.#status.readAll(), averages.stepMs);
  }

  /** For reports. */
  describe(): string | undefined {
    const found = this.find();
    return found === undefined ? undefined : `Stragglers: ${stragglerText(found)}.`;
  }

  #check(step: number, { percent, log }: { percent: number; log: Log }): void {
    this.#status.write();
    const found = this.find();
    if (found === undefined || !isTooLate(found, percent)) return;
    if (this.#warned?.rank === found.rank && step - this.#warned.step < quietSteps) return;
    this.#warned = { rank: found.rank, step };
    log.write(
      'warning',
      `${stragglerText(found)}. Look at what its host does besides, at its cores and at its input; ` +
        'horovod status shows all ranks. HOROVOD_STRAGGLER_PERCENT=0 turns this warning off.',
    );
  }
}
