// The error of a wait that was ended by its AbortSignal.

import { HorovodError } from '../errors.ts';

/** `what` was ended. Who aborts with an error of ours as the reason, because it knows why, gets it back. */
export function abortedBy(signal: AbortSignal | undefined, what: string): HorovodError {
  if (HorovodError.is(signal?.reason)) return signal.reason;
  return new HorovodError('ERR_HVD_ABORTED', `${what} was ended by an AbortSignal.`, {
    cause: signal?.reason,
  });
}
