// The step clock of a context: counts training steps and samples as markStep() and the framework adapters report
// them, and tells whoever listens (status, stragglers, timeline, autotune) that a step has ended.

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

export type StepListener = (mark: StepMark) => void;

export class StepClock {
  readonly #nowMs: () => number;
  readonly #listeners = new Set<StepListener>();
  #step = 0;
  #samples = 0;
  #saysWho: 'nobody' | 'adapter' | 'user' = 'nobody';

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
    if (this.#saysWho === 'user') return;
    this.#saysWho = 'adapter';
    this.#end(samples);
  }

  /** Listeners are called in the order they came; what one throws, the caller gets. */
  #end(samples: number | undefined): void {
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
