// At which commits the shards of a state are mirrored: every m-th, with the same m on all ranks. Each rank proposes one with which
// mirroring takes a hundredth of the time, the largest proposal holds until the next mirroring, in which the proposals travel.
// What is done since the last mirrored commit is done again if a rank is lost, so m is limited.

/** Share of the time that mirroring may take. */
const share = 0.01;
const maxInterval = 100;

export class MirrorSchedule {
  /** Undefined: chosen from what it costs. */
  readonly #fixed: number | undefined;
  #interval: number;
  #last: { readonly commit: number; readonly endedMs: number; readonly tookMs: number };

  /** `commit` has just been mirrored, with which the generation starts; it took this long. */
  constructor(fixed: number | undefined, commit: number, nowMs: number, tookMs: number) {
    this.#fixed = fixed;
    this.#interval = fixed ?? 1;
    this.#last = { commit, endedMs: nowMs, tookMs };
  }

  isDue(commit: number): boolean {
    return commit - this.#last.commit >= this.#interval;
  }

  /** What this rank proposes when it begins to mirror `commit`. */
  propose(commit: number, nowMs: number): number {
    if (this.#fixed !== undefined) return this.#fixed;
    const { endedMs, tookMs } = this.#last;
    const msPerCommit = (nowMs - endedMs) / Math.max(1, commit - this.#last.commit);
    const wanted = Math.ceil(tookMs / (share * Math.max(msPerCommit, 1e-3)));
    // At most four times as many as before: the first steps of a generation say little.
    return Math.max(1, Math.min(wanted, 4 * this.#interval, maxInterval));
  }

  /** `commit` has been mirrored, and `interval` is the largest proposal. */
  mirrored(commit: number, interval: number, nowMs: number, tookMs: number): void {
    this.#interval = interval;
    this.#last = { commit, endedMs: nowMs, tookMs };
  }
}
