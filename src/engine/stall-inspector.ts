// Who is missing, since when: looks at requests that have waited too long and says so, with what to do. Only
// text and a verdict; the context logs and acts.

import { HorovodError } from '../errors.ts';
import { listRanks } from './agreement/resolve.ts';
import type { Channel } from './channel.ts';
import { labelOf, nameOf, type Request } from './request.ts';

export interface StallLimits {
  readonly stallCheck: boolean;
  readonly stallWarningMs: number;
  /** 0: warn only. */
  readonly stallShutdownMs: number;
}

export interface StallReport {
  readonly warnings: readonly string[];
  readonly failure: HorovodError | undefined;
}

export function inspectStalls(
  channels: readonly Channel[],
  limits: StallLimits,
  nowMs: number,
  rank: number,
): StallReport {
  const warnings: string[] = [];
  let failure: HorovodError | undefined;
  for (const channel of channels) {
    for (const request of channel.pending) {
      const waitedMs = nowMs - request.submittedAtMs;
      // A timer may come a little early by the other clock.
      if (waitedMs < limits.stallWarningMs * 0.99) continue;
      const missing = channel.missingFor(request).filter((member) => member !== rank);
      if (nowMs - (request.warnedAtMs ?? 0) >= limits.stallWarningMs * 0.99) {
        request.warnedAtMs = nowMs;
        warnings.push(stallText(request, waitedMs, missing));
      }
      if (limits.stallShutdownMs > 0 && waitedMs >= limits.stallShutdownMs) {
        failure ??= new HorovodError(
          'ERR_HVD_TIMEOUT',
          `${stallText(request, waitedMs, missing)} The job ends: HOROVOD_STALL_SHUTDOWN_TIME_SECONDS is over.`,
          { rank: missing[0], tensor: nameOf(request.description) },
        );
      }
    }
  }
  return { warnings, failure };
}

function stallText(request: Request, waitedMs: number, missing: readonly number[]): string {
  const seconds = Math.round(waitedMs / 1000);
  const who =
    missing.length === 0
      ? 'all ranks have asked for it and it has not ended'
      : `${listRanks(missing)} ${missing.length === 1 ? 'has' : 'have'} not asked for it`;
  return (
    `${labelOf(request.description)} has waited ${seconds} s: ${who}. ` +
    'Usually an if around a collective, a rank that is much slower, or one that is stuck.'
  );
}
