// Watches one wait: its deadline, the calls about a stall, and whether those waited for are still alive.

import type { HorovodError } from '../../errors.ts';
import type { Batch } from '../transport.ts';
import { timeoutError } from '../group/wait-errors.ts';

/** A death is found out this long after it at the latest; asking costs some system calls per rank. */
const livenessMs = 50;

export interface LossFinder {
  findFailure(ranks: readonly number[]): HorovodError | undefined;
}

export class WaitWatch {
  readonly #rank: number;
  readonly #losses: LossFinder;
  /** Undefined until the first check: most waits are over before anybody looks at a clock. */
  #since: number | undefined;
  #stalls = 0;
  #checkedAt = 0;

  constructor(rank: number, losses: LossFinder) {
    this.#rank = rank;
    this.#losses = losses;
  }

  /** Something has come: what follows is a new wait. */
  begin(): void {
    this.#since = undefined;
  }

  /**
   * The error that this wait has to end with, if any. `lacking` and the stall callback deal in indices. The loss of
   * any of `others` (ranks) ends it, not only of those lacking: no operation gets to its end without all members.
   */
  check(
    batch: Batch,
    isSync: boolean,
    lacking: () => number[],
    others: readonly number[],
    rankOf: (index: number) => number,
  ): HorovodError | undefined {
    const now = performance.now();
    if (this.#since === undefined) {
      this.#since = now;
      this.#checkedAt = now;
      this.#stalls = 0;
    }
    const waitedMs = now - this.#since;
    if (isSync && batch.stallAfterMs > 0 && waitedMs >= (this.#stalls + 1) * batch.stallAfterMs) {
      this.#stalls++;
      batch.onStall?.(lacking());
    }
    if (now - this.#checkedAt >= livenessMs) {
      this.#checkedAt = now;
      const found = this.#losses.findFailure(others);
      if (found !== undefined) return found;
    }
    if (waitedMs < batch.timeoutMs) return undefined;
    return timeoutError(batch, this.#rank, lacking().map(rankOf));
  }
}
