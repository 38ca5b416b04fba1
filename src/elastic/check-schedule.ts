// At which commits the ranks ask each other whether the launcher wants another membership: every k-th, with the same k on all
// ranks. k begins at 1 in each generation. Each rank proposes one with which checks would be a tenth of a second apart, and the
// largest proposal holds until the next check, in which the proposals travel. No clock of one rank decides anything alone.
//
// A check is a small allreduce, but between steps that fill the caches with other things it takes a hundred times as long as in a loop. Where
// checks would take more than their share of the time, they are further apart.

/** As far apart as checks should be, and as they may be. */
const periodMs = 100;
const maxPeriodMs = 500;
/** Of the time. */
const share = 0.002;
/** Steps may suddenly take longer, so that k must not grow without bound. */
const maxInterval = 64;

export class CheckSchedule {
  #interval = 1;
  #checkedAt: { readonly commit: number; readonly ms: number };
  /** How long the last two checks took: one may have waited for a rank that was late. */
  #tookMs: readonly [number, number] = [0, 0];

  /** `commit` is the one with which the generation starts. */
  constructor(commit: number, nowMs: number) {
    this.#checkedAt = { commit, ms: nowMs };
  }

  isDue(commit: number): boolean {
    return commit - this.#checkedAt.commit >= this.#interval;
  }

  /** What this rank proposes in the check of `commit`. */
  propose(commit: number, nowMs: number): number {
    const commits = Math.max(1, commit - this.#checkedAt.commit);
    const msPerCommit = Math.max((nowMs - this.#checkedAt.ms) / commits, periodMs / maxInterval);
    const wantedMs = Math.min(Math.max(Math.min(...this.#tookMs) / share, periodMs), maxPeriodMs);
    // At most twice as many as before: one short step says little.
    return Math.max(1, Math.min(Math.round(wantedMs / msPerCommit), 2 * this.#interval, maxInterval));
  }

  /** The ranks have checked, and `interval` is the largest proposal. */
  checked(commit: number, interval: number, nowMs: number, tookMs = 0): void {
    this.#interval = interval;
    this.#checkedAt = { commit, ms: nowMs };
    this.#tookMs = [this.#tookMs[1], tookMs];
  }
}
