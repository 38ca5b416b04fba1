// A worker's side of the membership: what it reports to the driver, and what the driver answers. Waits have no deadline of
// their own: the driver limits how long it lets workers wait (--elastic-timeout), and they end with the connection to it.

import type { HorovodError } from '../errors.ts';
import {
  type Assignment,
  assignmentKey,
  decodeAssignment,
  encodeReady,
  formedKey,
  type Ready,
  readyKey,
} from '../rendezvous/elastic-messages.ts';
import type { Store } from '../rendezvous/store/store.ts';

/** This process, as it reports itself. */
export interface Reporter {
  readonly worker: number;
  readonly hostname: string;
  readonly store: Store;
}

export interface Report {
  /** Number of the last commit, -1: none. */
  readonly commit: number;
  /** Training steps since then that will be repeated. */
  readonly stepsSince: number;
  /** Why the generation has ended, for this worker. */
  readonly cause?: HorovodError | undefined;
  /** Numbers of the workers of that generation, by rank. */
  readonly workers?: readonly number[] | undefined;
  readonly isDone: boolean;
}

/** Longer texts of errors are cut: values of the store have a limit. */
const maxMessageLength = 2000;

export class Membership {
  readonly #reporter: Reporter;
  #reports = 0;
  /** The last one in which this worker was ready to train. */
  #generation = 0;

  constructor(reporter: Reporter) {
    this.#reporter = reporter;
  }

  /** Resolves when the driver has the report; the function then waits for its answer. */
  async report({ commit, stepsSince, cause, workers, isDone }: Report): Promise<() => Promise<Assignment>> {
    const { worker, hostname, store } = this.#reporter;
    const count = ++this.#reports;
    const blamed = cause?.rank === undefined ? undefined : workers?.[cause.rank];
    const ready: Ready = {
      generation: this.#generation,
      commit,
      ...(stepsSince === 0 ? {} : { stepsSince }),
      host: hostname,
      pid: process.pid,
      ...(cause === undefined
        ? {}
        : {
            cause: {
              code: cause.code,
              message: cause.detail.slice(0, maxMessageLength),
              ...(blamed === undefined ? {} : { worker: blamed }),
            },
          }),
      ...(isDone ? { isDone } : {}),
    };
    // Asked first, so that the answer takes one way only.
    const answer = store.get(assignmentKey(worker, count));
    answer.catch(() => undefined);
    await store.set(readyKey(worker, count), encodeReady(ready));
    return async () => decodeAssignment(await answer);
  }

  /**
   * This worker has the state of the generation and is about to train. `wentBack`: steps that are done again because the last commit
   * was not complete any more.
   */
  async formed(generation: number, wentBack: number): Promise<void> {
    const { worker, store } = this.#reporter;
    this.#generation = generation;
    await store.set(formedKey(generation, worker), String(wentBack));
  }
}
