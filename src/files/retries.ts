// Trying again: with growing pauses, until nothing has moved for too long.

import { setTimeout as sleep } from 'node:timers/promises';
import { HorovodError } from '../errors.ts';

const firstPauseMs = 100;
const maxPauseMs = 3_000;

/** What an attempt throws that may succeed later. The deadline turns it into the error of the whole. */
export class TryAgain extends Error {
  readonly final: () => Error;
  /** Another server may answer at once. */
  readonly isQuick: boolean;

  constructor(final: () => Error, isQuick = false) {
    super('try again');
    this.final = final;
    this.isQuick = isQuick;
  }
}

/** Calls `attempt` until it returns, throws something else than TryAgain, or the time is over. */
export async function retried<T>(
  attempt: (number: number) => Promise<T>,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined },
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  let pauseMs = firstPauseMs;
  for (let number = 1; ; number++) {
    try {
      return await attempt(number);
    } catch (error) {
      if (!(error instanceof TryAgain)) throw error;
      const waitMs = error.isQuick ? 0 : pauseMs * (0.5 + Math.random() / 2);
      if (performance.now() + waitMs >= deadline) throw error.final();
      if (!error.isQuick) pauseMs = Math.min(2 * pauseMs, maxPauseMs);
      await pause(waitMs, signal);
    }
  }
}

async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(ms, undefined, signal === undefined ? {} : { signal });
  } catch (cause) {
    if (HorovodError.is(signal?.reason)) throw signal.reason;
    throw new HorovodError('ERR_HVD_ABORTED', 'A request was ended by an AbortSignal.', { cause });
  }
}
