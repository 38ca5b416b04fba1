// Waits that end in one of three ways: with a result, at a deadline, or by an AbortSignal.

import { HorovodError } from '../errors.ts';

export interface WaitOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
}

/** `what` completes 'waited 3 s …'. Listeners and timers are gone when it settles. */
export function waitFor<T>(
  start: (resolve: (value: T) => void, reject: (error: HorovodError) => void) => void,
  what: string,
  { signal, timeoutMs }: WaitOptions,
  timeoutError: () => HorovodError = () => timedOut(what, timeoutMs ?? 0),
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  let onAbort: (() => void) | undefined;
  return new Promise<T>((resolve, reject) => {
    onAbort = () => reject(abortedBy(signal, `waiting ${what}`));
    if (signal?.aborted) {
      onAbort();
      return;
    }
    signal?.addEventListener('abort', onAbort, { once: true });
    if (timeoutMs !== undefined) timer = setTimeout(() => reject(timeoutError()), timeoutMs);
    start(resolve, reject);
  }).finally(() => {
    clearTimeout(timer);
    if (onAbort !== undefined) signal?.removeEventListener('abort', onAbort);
  });
}

/** The error of a wait that an AbortSignal ended: the signal's reason where that is a HorovodError. */
export function abortedBy(signal: AbortSignal | undefined, what: string): HorovodError {
  if (HorovodError.is(signal?.reason)) return signal.reason;
  return new HorovodError('ERR_HVD_ABORTED', `${what} was ended by an AbortSignal.`, {
    cause: signal?.reason,
  });
}

/** A duration for error texts: '0.5 s'. */
export function inSeconds(ms: number): string {
  return `${Number((ms / 1000).toPrecision(3))} s`;
}

function timedOut(what: string, timeoutMs: number): HorovodError {
  return new HorovodError(
    'ERR_HVD_TIMEOUT',
    `waited ${inSeconds(timeoutMs)} ${what}. Has every rank been started, and does every rank call init()? ` +
      'To wait longer, use --start-timeout.',
  );
}
