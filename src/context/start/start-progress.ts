// Says what a start waits for, when it takes long. One rank speaks for all: the first of each host while it looks for the
// others, then the first of the job, which collects what the ranks tell. Should that one be missing, the second says so.

import { createLog, type Log } from '../../console/log.ts';
import { type Phase, type ProgressClock, startPhase } from '../../console/progress.ts';
import type { Settings } from '../../settings/table.ts';

/** The second rank leaves it to the first, which knows more. */
const secondQuietMs = 10_000;

export class StartProgress {
  readonly #clock: ProgressClock | undefined;
  #phase: Phase | undefined;

  constructor(clock?: ProgressClock) {
    this.#clock = clock;
  }

  /** This process looks for the store through which the ranks meet. */
  joining(settings: Settings, log: Log = createLog(settings, settings.rank)): void {
    if (settings.localRank !== 0) return;
    const { rendezvousAddress, rendezvous, launcher } = settings;
    const address = rendezvousAddress ?? rendezvous;
    const by = address === undefined ? `as ranks of ${launcher.kind}` : `at ${address}`;
    this.#begin(log);
    this.#phase?.report({ detail: `looking for the other ranks ${by}` });
  }

  /** The ranks tell each other who and where they are. The function returned hears of those who are missing. */
  gathering(members: readonly number[], place: number, log: Log): (missing: readonly number[]) => void {
    this.end();
    if (place > 1) return () => {};
    if (place === 1) {
      this.#begin(log, secondQuietMs);
      this.#phase?.report({ detail: `waiting for rank ${members[0]}, which brings the ranks together` });
      return () => {};
    }
    this.#begin(log);
    return (missing) => {
      const total = members.length;
      this.#phase?.report({
        done: total - missing.length,
        total,
        unit: 'ranks',
        ...(missing.length === 0 ? {} : { detail: `waiting for ${ranksOf(missing)}` }),
      });
    };
  }

  /** All are there; now this is done. */
  stage(detail: string): void {
    this.#phase?.report({ detail });
  }

  /** Calling it twice is fine. */
  end(): void {
    this.#phase?.end();
    this.#phase = undefined;
  }

  #begin(log: Log, quietMs?: number): void {
    this.#phase = startPhase({
      what: 'starting',
      log,
      ...(quietMs === undefined ? {} : { quietMs }),
      ...(this.#clock === undefined ? {} : { clock: this.#clock }),
    });
  }
}

function ranksOf(ranks: readonly number[]): string {
  const shown = ranks.length > 16 ? [...ranks.slice(0, 16), '…'] : ranks;
  return `${ranks.length === 1 ? 'rank' : 'ranks'} ${shown.join(', ')}`;
}
