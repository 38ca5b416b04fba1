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
      after?: number | undefined;
    },
  ): Promise<DispatcherPlace>;
}

export interface FindOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Why the last connection ended; '' at the start. */
  readonly lastLoss?: string | undefined;
}

const attemptMs = 2000;

export class DispatcherSource {
  readonly #directory: Directory;
  readonly #index: number;
  /** The highest that was seen: older ones are refused. */
  #incarnation = 0;

  constructor(directory: Directory, index: number) {
    this.#directory = directory;
    this.#index = index;
  }

  /** Calls `attempt` with where the dispatcher is until it succeeds. */
  async connect<T>(
    attempt: (place: DispatcherPlace, attemptMs: number) => Promise<T>,
    { timeoutMs, signal, lastLoss = '' }: FindOptions,
  ): Promise<T> {
    const deadline = performance.now() + timeoutMs;
    let place: DispatcherPlace | undefined;
    let reason = lastLoss;
    for (;;) {
      const left = deadline - performance.now();
      if (left <= 0) throw this.#notFound(timeoutMs, reason);
      try {
        place =
          place === undefined
            ? await this.#directory.waitForDispatcher(this.#index, {
                timeoutMs: left,
                signal,
                after: this.#incarnation > 0 ? this.#incarnation - 1 : undefined,
              })
            : await this.#directory.waitForDispatcher(this.#index, {
                timeoutMs: Math.min(left, attemptMs / 4),
                signal,
                after: place.incarnation,
              });
      } catch (error) {
        // Nobody else yet: the one that is known may answer again.
        if (signal?.aborted || place === undefined || !HorovodError.is(error)) throw error;
        if (error.code !== 'ERR_HVD_TIMEOUT') reason = error.detail;
      }
      this.#incarnation = Math.max(this.#incarnation, place.incarnation);
      try {
        return await attempt(place, Math.max(100, Math.min(attemptMs, deadline - performance.now())));
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
