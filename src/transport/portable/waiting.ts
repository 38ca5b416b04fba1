// How a rank waits: first by asking again at once, then with naps that grow. There is nothing to be woken by, since
// files have no notification; so the first naps are short, and none is so long that it would be felt.

/** Blocks this thread. Used by the Sync forms. */
export class BlockingPause {
  readonly #polls: number;
  readonly #never = new Int32Array(new SharedArrayBuffer(4));
  #turn = 0;

  /**
   * `isCrowded`: more ranks than cores. The one waited for may need this very core, so nap at once. Otherwise ask for
   * about a millisecond: a nap takes ten times as long as it should, and a rank that naps is often woken on its
   * peer's core (measured at 1 MiB: 0.45 ms an operation, against 0.46 to 1.5 ms with naps after 30 µs).
   */
  constructor(isCrowded: boolean, questionUs: number) {
    this.#polls = isCrowded ? 4 : Math.ceil(900 / questionUs);
  }

  reset(): void {
    this.#turn = 0;
  }

  /** True after a nap, when time has passed; false when it is worth asking again right now. */
  pause(): boolean {
    this.#turn++;
    if (this.#turn <= this.#polls) return false;
    const naps = this.#turn - this.#polls;
    Atomics.wait(this.#never, 0, 0, Math.min(1, 0.02 * 1.3 ** naps));
    return true;
  }
}

/** Goes back to the event loop. Pending operations keep the process alive, so nothing here is unref'd. */
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

  /** Calls `resume` at the next turn of the event loop, or some milliseconds later when that has been in vain. */
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
