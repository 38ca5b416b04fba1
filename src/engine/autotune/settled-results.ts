// What autotune has settled on in the memberships of an elastic job, by their shapes. Every worker keeps it, because any of them may be
// rank 0 of the next membership, which tells the others. A job that loses a rank and gets another one back has its old shape again, and
// goes on with what it had found for it.

import { type JobShape, misfit, type SavedResult } from './files.ts';
import type { TunableValues } from './tunables.ts';

/** The ranks exchange all of them. */
const mostResults = 16;

export class SettledResults {
  #results: readonly SavedResult[] = [];

  /** The last first. */
  list(): readonly SavedResult[] {
    return this.#results;
  }

  add(shape: JobShape, values: TunableValues): void {
    const result: SavedResult = { format: 1, shape, values };
    const others = this.#results.filter((each) => misfit(each, shape) !== undefined);
    this.#results = [result, ...others].slice(0, mostResults);
  }
}
