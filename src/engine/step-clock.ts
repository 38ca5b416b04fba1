// The step clock of a context: counts training steps and samples as markStep() and the framework adapters report
// them, and tells whoever listens (status, stragglers, timeline, autotune) that a step has ended. It also knows where in its
// training the rank is, as far as adapters say: ranks compare that when they wait for different things.

/** A step that has just ended. */
export interface StepMark {
  /** Steps so far, this one included. */
  readonly step: number;
  /** Of this step on this rank; undefined where nobody has said. */
  readonly samples: number | undefined;
  /** Of all steps so far that said. */
  readonly totalSamples: number;
  /** Milliseconds of the host's monotonic clock, as in flight records. */
  readonly atMs: number;
}

/** Where in its training a rank is. */
export interface TrainingPosition {
  /** Steps that have ended. */
  readonly steps: number;
  /** It is in the next one. */
  readonly isInStep: boolean;
  /** From 1. Undefined: nobody has said. */
  readonly epoch?: number | undefined;
  /** That have ended in this epoch. */
  readonly batches?: number | undefined;
  readonly isEpochOver?: boolean | undefined;
  /** fit() has ended. */
  readonly isOver?: boolean | undefined;
}

export type StepListener = (mark: StepMark) => void;

export class StepClock {
  readonly #nowMs: () => number;
  readonly #listeners = new Set<StepListener>();
  #step = 0;
  #samples = 0;
  #saysWho: 'nobody' | 'adapter' | 'user' = 'nobody';
  #isInStep = false;
  #epoch: Pick<TrainingPosition, 'epoch' | 'batches' | 'isEpochOver' | 'isOver'> = {};

  constructor(nowMs: () => number = monotonicMs) {
    this.#nowMs = nowMs;
  }

  /** Steps so far. */
  get step(): number {
    return this.#step;
  }

  /** Samples so far, of the steps that said how many they had. */
  get samples(): number {
    return this.#samples;
  }

  /**
   * The user says that a step of this rank has ended. From the first time on only the user says so: an optimizer inside of
   * the loop has seen the same steps. The step it has seen before that is the one the user means.
   */
  mark(samples?: number): void {
    const isSeen = this.#saysWho === 'adapter';
    this.#saysWho = 'user';
    if (!isSeen) this.#end(samples);
    else if (samples !== undefined) this.#samples += samples;
  }

  /** An optimizer or a tape has made a step. */
  report(samples?: number): void {
    this.#isInStep = false;
    if (this.#saysWho === 'user') return;
    this.#saysWho = 'adapter';
    this.#end(samples);
  }

  /** The training of an elastic job goes back to a commit: this many steps are done again. */
  goBack(steps: number): void {
    this.#step -= steps;
    this.#isInStep = false;
  }

  /** Undefined before the first step. */
  get position(): TrainingPosition | undefined {
    if (this.#step === 0 && !this.#isInStep && this.#epoch.epoch === undefined) return undefined;
    return { steps: this.#step, isInStep: this.#isInStep, ...this.#epoch };
  }

  /** A step begins; its end is reported as before. */
  begin(): void {
    // Of a fit() that has ended: this is another loop.
    if (this.#epoch.isOver === true) this.#epoch = {};
    this.#isInStep = true;
  }

  /** fit() begins an epoch, counted from 1. */
  beginEpoch(epoch: number): void {
    this.#epoch = { epoch, batches: 0 };
  }

  /** A batch of this epoch has ended; `batches` counts it. */
  endBatch(batches: number): void {
    this.#isInStep = false;
    if (this.#epoch.epoch !== undefined) this.#epoch = { ...this.#epoch, batches };
  }

  endEpoch(): void {
    if (this.#epoch.epoch !== undefined) this.#epoch = { ...this.#epoch, isEpochOver: true };
  }

  /** fit() has ended. */
  endTraining(): void {
    if (this.#epoch.epoch !== undefined) this.#epoch = { ...this.#epoch, isOver: true };
  }

  /** Listeners are called in the order they came; what one throws, the caller gets. */
  #end(samples: number | undefined): void {
    this.#isInStep = false;
    const step = ++this.#step;
    if (samples !== undefined) this.#samples += samples;
    if (this.#listeners.size === 0) return;
    const mark: StepMark = { step, samples, totalSamples: this.#samples, atMs: this.#nowMs() };
    for (const listener of [...this.#listeners]) listener(mark);
  }

  /** Returns what ends it. */
  subscribe(listener: StepListener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}

function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
