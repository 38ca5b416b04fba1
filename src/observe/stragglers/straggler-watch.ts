// Measures how long this rank waits for others, keeps the averages in its status page, and warns on rank 0 of a rank that
// the others wait for too long.

import type { Log } from '../../console/log.ts';
import { nowMs } from '../../engine/clock.ts';
import type { ObservedOperation, OperationObserver, OperationStage } from '../../engine/observer.ts';
import type { StepMark } from '../../engine/step-clock.ts';
import { typedCommand } from '../../settings/command-name.ts';
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

export interface StragglerOptions {
  readonly rank: number;
  /** HOROVOD_STRAGGLER_PERCENT; 0: no warnings. */
  readonly percent: number;
  readonly log: Log;
}

export class StragglerWatch implements OperationObserver {
  readonly name = 'the straggler report';
  readonly #meter = new WaitMeter();
  readonly #status: StatusWriter;
  readonly #options: StragglerOptions;
  #warned: { readonly rank: number; readonly step: number } | undefined;
  /** Of the quick operation that runs; 0: it is not measured. */
  #quickSinceMs = 0;

  constructor(status: StatusWriter, options: StragglerOptions) {
    this.#status = status;
    this.#options = options;
  }

  beforeQuick({ bytes }: ObservedOperation): void {
    this.#quickSinceMs = this.#meter.wants(bytes) ? nowMs() : 0;
  }

  afterQuick(): void {
    if (this.#quickSinceMs !== 0) this.#meter.add(nowMs() - this.#quickSinceMs);
  }

  submitted({ submittedAtMs }: ObservedOperation): void {
    this.#meter.enter(submittedAtMs);
  }

  stage({ submittedAtMs }: ObservedOperation, stage: OperationStage): void {
    if (stage !== 'slow') return;
    this.afterQuick();
    this.#meter.enter(submittedAtMs);
  }

  settled({ finishedAtMs }: ObservedOperation): void {
    this.#meter.leave(finishedAtMs);
  }

  step({ step, atMs }: StepMark): void {
    const { rank, percent } = this.#options;
    this.#meter.endStep(atMs);
    if (step % pageSteps !== 0) return;
    const averages = this.#meter.averages();
    if (averages === undefined) return;
    this.#status.set({ waitMsPerStep: Number(averages.waitMs.toPrecision(4)) });
    if (rank === 0 && percent > 0 && step % stragglerSteps === 0) this.#check(step);
  }

  /** Undefined: not known yet. */
  find(): Straggler | undefined {
    const averages = this.#meter.averages();
    return averages === undefined ? undefined : findStraggler(this.#status.readAll(), averages.stepMs);
  }

  /** The rank that the others wait for, if it is as late as the warning asks. */
  late(): Straggler | undefined {
    const found = this.find();
    return found !== undefined && isTooLate(found, this.#options.percent) ? found : undefined;
  }

  /** For reports. */
  describe(): string | undefined {
    const found = this.late();
    return found === undefined ? undefined : `Stragglers: ${stragglerText(found)}.`;
  }

  #check(step: number): void {
    const { log } = this.#options;
    this.#status.write();
    const found = this.late();
    if (found === undefined) return;
    if (this.#warned?.rank === found.rank && step - this.#warned.step < quietSteps) return;
    this.#warned = { rank: found.rank, step };
    log.write(
      'warning',
      `${stragglerText(found)}. Check its input pipeline, its cores, and what else runs on its host; ` +
        `\`${typedCommand('horovod')} status\` shows all ranks. HOROVOD_STRAGGLER_PERCENT=0 turns this warning off.`,
    );
  }
}
