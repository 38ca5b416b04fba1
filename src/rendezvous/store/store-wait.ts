// One wait with its two other ends: a deadline and an AbortSignal.

import { HorovodError } from '../../errors.ts';
import type { WaitOptions } from './store.ts';

/** `what` completes 'waited 3 s …'. Listeners and timers are gone when it settles. */
export function waitFor<T>(
  start: (resolve: (value: T) => void, reject: (error: HorovodError) => void) => void,
  what: string,
  { signal, timeoutMs }: WaitOptions,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  let onAbort: (() => void) | undefined;
  return new Promise<T>((resolve, reject) => {
    onAbort = () => {
      const text = `waiting ${what} was ended by an AbortSignal.`;
      reject(new HorovodError('ERR_HVD_ABORTED', text, { cause: signal?.reason }));
    };
    if (signal?.aborted) {
      onAbort();
      return;
    }
    signal?.addEventListener('abort', onAbort, { once: true });
    if (timeoutMs !== undefined) {
      timer = setTimeout(() => {
        const text =
          `waited ${inSeconds(timeoutMs)} ${what}, in vain. ` +
          'Has every rank been started, and does every rank call init()? (--start-timeout allows for more time.)';
        reject(new HorovodError('ERR_HVD_TIMEOUT', text));
      }, timeoutMs);
    }
    start(resolve, reject);
  }).finally(() => {
    clearTimeout(timer);
    if (onAbort !== undefined) signal?.removeEventListener('abort', onAbort);
  });
}

/** A duration in words, without digits nobody wants. */
export function inSeconds(ms: number): string {
  return `${Number((ms / 1000).toPrecision(3))} s`;
}
