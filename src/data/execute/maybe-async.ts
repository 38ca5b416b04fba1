// Code that may have to wait, written once for both forms of next(). It is a generator that yields what may be a promise and gets
// back the value. driveAsync() waits for promises; driveSync() cannot, and fails if one comes.

import { HorovodError } from '../../errors.ts';

export type Steps<R> = Generator<unknown, R, unknown>;

export async function driveAsync<R>(steps: Steps<R>): Promise<R> {
  let turn = steps.next();
  while (!turn.done) {
    let value: unknown = turn.value;
    if (isPromise(value)) {
      try {
        value = await value;
      } catch (error) {
        turn = steps.throw(error);
        continue;
      }
    }
    turn = steps.next(value);
  }
  return turn.value;
}

export function driveSync<R>(steps: Steps<R>): R {
  let turn = steps.next();
  while (!turn.done) {
    turn = isPromise(turn.value) ? steps.throw(wouldWait(turn.value)) : steps.next(turn.value);
  }
  return turn.value;
}

export function isPromise(value: unknown): value is Promise<unknown> {
  return (
    typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
  );
}

function wouldWait(promise: Promise<unknown>): HorovodError {
  promise.catch(() => {});
  return new HorovodError(
    'ERR_HVD_WOULD_BLOCK',
    'nextSync(): a function of the pipeline that runs in the main thread returned a promise, or its files are read in the main ' +
      'thread. Use next(), or let threads do it: exported() functions, HOROVOD_DATA_THREADS of at least 1.',
  );
}
