// The job as a generation of an elastic job sees it: members are known by their ranks, and so are the errors about them. The store
// itself knows processes by their numbers as workers, which stay the same while ranks change.

import { HorovodError } from '../errors.ts';
import type { Seat } from './elastic-messages.ts';
import type { JoinedJob } from './join.ts';
import type { Store } from './store/store.ts';

/** Closing it leaves the worker's connection open. */
export function seatedJob(job: JoinedJob, seat: Pick<Seat, 'rank' | 'size' | 'workers'>): JoinedJob {
  const { rank, size, workers } = seat;
  return { ...job, rank, size, store: seatedStore(job.store, workers), close() {} };
}

function seatedStore(store: Store, workers: readonly number[]): Store {
  const renamed = (error: unknown) => {
    throw withRank(error, workers);
  };
  return {
    set: (key, value, options) => store.set(key, value, options).catch(renamed),
    get: (key, options = {}) => {
      const from = options.from === undefined ? undefined : workers[options.from];
      return store.get(key, { ...options, from }).catch(renamed);
    },
    close() {},
  };
}

/** The same error, about the rank of that worker. */
function withRank(error: unknown, workers: readonly number[]): unknown {
  if (!HorovodError.is(error) || error.rank === undefined) return error;
  const rank = workers.indexOf(error.rank);
  const { code, detail, pid, signal, exitCode, cause } = error;
  return new HorovodError(code, detail, {
    rank: rank < 0 ? undefined : rank,
    pid,
    signal,
    exitCode,
    cause,
  });
}
