// How long a peer has been silent, by a clock that stands still while this process does not run. A machine that was
// suspended, a virtual machine that was stopped or a laptop whose lid was closed has heard nobody for hours; all the
// same nobody is to blame. So time counts only as far as our own timer has gone off in it.

/** A longer gap between two ticks is one in which this process stood still; it counts as this much. */
const longestGapMs = 1000;

export class Silence {
  readonly #heardAt = new Map<number, number>();
  #runMs = 0;
  #lastTickAt: number;

  constructor(now: number) {
    this.#lastTickAt = now;
  }

  /** To be called by a timer, several times a second. */
  tick(now: number): void {
    this.#runMs += Math.min(now - this.#lastTickAt, longestGapMs);
    this.#lastTickAt = now;
  }

  heard(peer: number): void {
    this.#heardAt.set(peer, this.#runMs);
  }

  /** 0 for one that was never heard of: silence begins after the first word. */
  silentMs(peer: number): number {
    const heardAt = this.#heardAt.get(peer);
    return heardAt === undefined ? 0 : this.#runMs - heardAt;
  }
}
