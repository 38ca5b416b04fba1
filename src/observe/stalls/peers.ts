// What the other ranks are doing, as far as this one can know: from their status pages, and from the kernel for processes
// of this host.

import {
  type Activity,
  type ActivitySample,
  activityOf,
  sampleActivity,
} from '../../control/process-activity.ts';
import { nowMs } from '../../engine/clock.ts';
import type { ObservedRank } from '../observed-rank.ts';
import { describePeer } from '../status/describe-peer.ts';
import type { StatusWriter } from '../status/status-writer.ts';

/** Processes sampled at a time. */
const maxSampled = 8;

export class Peers {
  readonly #watched: Pick<ObservedRank, 'pidOf'>;
  readonly #status: StatusWriter;
  readonly #samples = new Map<number, { previous: ActivitySample | undefined; latest: ActivitySample }>();

  constructor(watched: Pick<ObservedRank, 'pidOf'>, status: StatusWriter) {
    this.#watched = watched;
    this.#status = status;
  }

  /** A process is busy or not over a span of time: so these are looked at before there is a reason to ask. */
  sample(ranks: readonly number[], atMs: number): void {
    if (ranks.length === 0) this.#samples.clear();
    for (const rank of ranks.slice(0, maxSampled)) {
      const pid = this.#watched.pidOf(rank);
      const latest = pid ? sampleActivity(pid, atMs) : undefined;
      if (pid && latest !== undefined) {
        this.#samples.set(pid, { previous: this.#samples.get(pid)?.latest, latest });
      }
    }
  }

  /** A sentence without its end: 'rank 3 (host2, pid 812) sleeps'. */
  describe(rank: number): string {
    const pid = this.#watched.pidOf(rank);
    const activity = pid ? this.#activityOf(pid) : 'unknown';
    return describePeer({ rank, status: this.#status.read(rank), activity }, Date.now());
  }

  #activityOf(pid: number): Activity {
    const sample = this.#samples.get(pid);
    return activityOf(sample?.previous, sample?.latest ?? sampleActivity(pid, nowMs()));
  }
}
