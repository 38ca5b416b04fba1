// How a rank waits: it polls first, then it naps between polls, longer each time. Files cannot wake a reader, so the
// first naps are short, and none is long enough to be noticed.

/** Blocks this thread. Used by the Sync forms. */
export class BlockingPause {
  readonly #polls: number;
  readonly #never = new Int32Array(new SharedArrayBuffer(4));
  #turn = 0;

  /**
   * `isCrowded`: more ranks than cores. The rank waited for may need this very core, so nap early. Otherwise poll for
   * about a millisecond: a nap takes ten times as long as requested, and a napping rank is often woken on its
   * peer's core (measured at 1 MiB: 0.45 ms per operation, against 0.46 to 1.5 ms with naps after 30 µs).
   */
  constructor(isCrowded: boolean, pollUs: number) {
    this.#polls = isCrowded ? 4 : Math.ceil(900 / pollUs);
  }

  reset(): void {
    this.#turn = 0;
  }

  /** True after a nap; false if it is worth polling again right now. */
  pause(): boolean {
    this.#turn++;
    if (this.#turn <= this.#polls) return false;
    const naps = this.#turn - this.#polls;
    Atomics.wait(this.#never, 0, 0, Math.min(1, 0.02 * 1.3 ** naps));
    return true;
  }
}

/** Yields to the event loop. Pending operations keep the process alive, so nothing here is unref'd. */
export class LoopPause {
  #turn = 0;
  #immediate: NodeJS.Immediate | undefined;
  #timer: NodeJS.Timeout | undefined;

  get isPending(): boolean {
    return this.#immediate !== undefined || this.#timer !== undefined;
  }

  reset(): void {
    this.#turn = 0;
  }

  /** Calls `resume` at the next turn of the event loop, or some milliseconds later after many turns without progress. */
  schedule(resume: () => void): void {
    if (this.isPending) return;
    this.#turn++;
    const go = (): void => {
      this.#immediate = undefined;
      this.#timer = undefined;
      resume();
    };
    if (this.#turn <= 200) this.#immediate = setImmediate(go);
    else this.#timer = setTimeout(go, this.#turn <= 300 ? 1 : 3);
  }

  cancel(): void {
    clearImmediate(this.#immediate);
    clearTimeout(this.#timer);
    this.#immediate = undefined;
    this.#timer = undefined;
  }
}
