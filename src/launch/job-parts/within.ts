// Waiting with a limit.

import { setTimeout as sleep } from 'node:timers/promises';

/** Between the first signal to a rank and SIGKILL. */
export const defaultGraceMs = 5000;
/** How long ranks may go on after another one has failed, before they are stopped. */
export const noticeMs = 1000;

/** Waits for the promise, but not longer than `ms`. */
export async function within(promise: Promise<unknown>, ms: number): Promise<void> {
  const timer = new AbortController();
  const patience = sleep(ms, undefined, { signal: timer.signal }).catch(() => undefined);
  await Promise.race([promise, patience]);
  timer.abort();
}
