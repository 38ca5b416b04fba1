// At which commits the ranks ask each other whether the launcher wants another membership: every k-th, with the same k on all
// ranks. k begins at 1 in each generation. Each rank proposes one with which checks would be a tenth of a second apart, and the
// largest proposal holds until the next check, in which the proposals travel. No clock of one rank decides anything alone.

/** As far apart as checks should be. */
const periodMs = 100;
/** Steps may suddenly take longer, so that k must not grow without bound. A check costs as much as a small allreduce. */
const maxInterval = 64;

export class CheckSchedule {
  #interval = 1;
  #checkedAt: { readonly commit: number; readonly ms: number };

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
    // At most twice as many as before: one short step says little.
    return Math.max(1, Math.min(Math.round(periodMs / msPerCommit), 2 * this.#interval, maxInterval));
  }

  /** The ranks have checked, and `interval` is the largest proposal. */
  checked(commit: number, interval: number, nowMs: number): void {
    this.#interval = interval;
    this.#checkedAt = { commit, ms: nowMs };
  }
}
