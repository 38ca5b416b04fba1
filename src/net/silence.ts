// Notices when a peer has not been heard for too long, by a clock that stands still while this process does not run. A
// machine that was suspended, or a process that was stopped or starved, has heard nobody meanwhile, and nobody is to
// blame: it has to read first what has come. So a gap between two ticks of our timer counts only up to a limit.

const ticksPerLimit = 20;
/** Timers of a busy machine come late; a longer gap means that this process stood still. */
const maxGapTicks = 4;

export class SilenceDetector<Peer> {
  readonly #heardAt = new Map<Peer, number>();
  readonly #timer: NodeJS.Timeout;
  #runMs = 0;

  /** `onSilence` is called once for each peer, `limitMs` after it was last heard. */
  constructor(limitMs: number, onSilence: (peer: Peer) => void, now: () => number = () => performance.now()) {
    const tickMs = limitMs / ticksPerLimit;
    let lastTickAt = now();
    this.#timer = setInterval(() => {
      this.#runMs += Math.min(now() - lastTickAt, maxGapTicks * tickMs);
      lastTickAt = now();
      for (const [peer, heardAt] of this.#heardAt) {
        if (this.#runMs - heardAt < limitMs) continue;
        this.#heardAt.delete(peer);
        onSilence(peer);
      }
    }, tickMs);
  }

  /** Something has come. Before the first time a peer is not watched. */
  heard(peer: Peer): void {
    this.#heardAt.set(peer, this.#runMs);
  }

  /** It does not keep this process alive. */
  unref(): void {
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
