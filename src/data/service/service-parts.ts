// How parts of the data service find their dispatcher: they ask the registry, connect, and ask again where that fails, because a
// dispatcher that was lost has a successor with a higher incarnation.

import { HorovodError } from '../../errors.ts';
import { inSeconds } from '../../net/wait.ts';

/** Where a dispatcher is. */
export interface DispatcherPlace {
  readonly index: number;
  readonly incarnation: number;
  readonly addresses: readonly string[];
}

/** What is used of the registry's client. */
export interface Directory {
  waitForDispatcher(
    index: number,
    options: {
      timeoutMs: number;
      signal?: AbortSignal | undefined;
      /** One with a higher incarnation than this. */
      after?: number;
    },
  ): Promise<DispatcherPlace>;
}

export interface FindOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Why the last connection ended; '' at the start. */
  readonly lastLoss?: string | undefined;
}

/** For one connection, and for a look at the registry. */
const attemptMs = 2000;
const lookMs = 500;

export class DispatcherSource {
  readonly #directory: Directory;
  readonly #index: number;
  /** The newest that was seen: older ones are refused. */
  #place: DispatcherPlace | undefined;

  constructor(directory: Directory, index: number) {
    this.#directory = directory;
    this.#index = index;
  }

  /** There has been a dispatcher of this index. */
  get hasSeen(): boolean {
    return this.#place !== undefined;
  }

  /** Calls `attempt` with where the dispatcher is until it succeeds. */
  async connect<T>(
    attempt: (place: DispatcherPlace, attemptMs: number) => Promise<T>,
    { timeoutMs, signal, lastLoss = '' }: FindOptions,
  ): Promise<T> {
    const deadline = performance.now() + timeoutMs;
    let reason = lastLoss;
    // A connection may break while the dispatcher lives: it is asked first.
    let isKnown = this.#place !== undefined;
    for (;;) {
      const left = deadline - performance.now();
      if (left <= 0) throw this.#notFound(timeoutMs, reason);
      if (!isKnown) {
        try {
          const waitMs = this.#place === undefined ? left : Math.min(left, lookMs);
          const after = this.#place?.incarnation ?? 0;
          this.#place = await this.#directory.waitForDispatcher(this.#index, {
            timeoutMs: waitMs,
            signal,
            after,
          });
        } catch (error) {
          if (signal?.aborted || this.#place === undefined || !HorovodError.is(error)) throw error;
          // Nobody newer, or no registry: the one that is known may answer again.
          if (error.code !== 'ERR_HVD_TIMEOUT') reason = error.detail;
          if (error.code === 'ERR_HVD_SHUT_DOWN') throw error;
        }
      }
      isKnown = false;
      const startedAt = performance.now();
      try {
        const place = this.#place as DispatcherPlace;
        // A part of the time: the registry has to be asked in it, too.
        const partMs = Math.min(attemptMs, timeoutMs / 3, deadline - startedAt);
        return await attempt(place, Math.max(100, partMs));
      } catch (error) {
        if (signal?.aborted || !HorovodError.is(error)) throw error;
        reason = error.detail;
      }
    }
  }

  #notFound(timeoutMs: number, reason: string): HorovodError {
    const why = reason === '' ? 'Nothing answers' : `The last that was heard: ${reason.replace(/\.$/, '')}`;
    return new HorovodError(
      'ERR_HVD_DATA_SERVICE',
      `data service: no connection to dispatcher ${this.#index} for ${inSeconds(timeoutMs)}. ${why}. Is the compute job still running?`,
    );
  }
}
