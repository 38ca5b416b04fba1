// Watches one wait: its deadline, its stall callbacks, and whether the other members are still alive.

import type { HorovodError } from '../../errors.ts';
import { timeoutError } from '../group/wait-errors.ts';
import type { Batch } from '../transport.ts';

/** A death is noticed after this time at the latest; a check costs some system calls per rank. */
const livenessMs = 50;

export interface LossFinder {
  findFailure(ranks: readonly number[]): HorovodError | undefined;
}

export class WaitWatch {
  readonly #rank: number;
  readonly #losses: LossFinder;
  /** Undefined until the first check: most waits are over before that. */
  #since: number | undefined;
  #stalls = 0;
  #checkedAt = 0;

  constructor(rank: number, losses: LossFinder) {
    this.#rank = rank;
    this.#losses = losses;
  }

  /** There was progress: a new wait begins. */
  begin(): void {
    this.#since = undefined;
  }

  /**
   * The error that ends this wait, if any. `lacking` and the stall callback use indices. The loss of any of `others`
   * (ranks) ends it, not only of those lacking: no operation completes without all members.
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
