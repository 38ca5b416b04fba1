// Which rings belong to a timeline, for whoever reads them.

import { sessionIn } from './ring.ts';

/** How long a ring of another session must exist before it is read. */
const foreignMs = 1000;

/**
 * Those of its session. A ring of another session belongs to the next timeline, or to a rank that was given another file name; the
 * latter is read too, after a while.
 */
export class RingFilter {
  readonly #foreign = new Map<string, number>();

  accepts(path: string, session: number, isFinishing: boolean): boolean {
    if (sessionIn(path) === session) return true;
    const now = performance.now();
    const since = this.#foreign.get(path) ?? now;
    this.#foreign.set(path, since);
    return now - since >= foreignMs && !isFinishing;
  }
}
