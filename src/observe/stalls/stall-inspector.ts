// Finds requests that have waited too long and says which ranks are missing, what those do instead, and what to do. Only
// text and a verdict; the stall watch logs and acts.

import { listRanks } from '../../console/list-ranks.ts';
import type { Channel } from '../../engine/channel.ts';
import { labelOf, nameOf } from '../../engine/description.ts';
import type { Request } from '../../engine/request.ts';
import { HorovodError } from '../../errors.ts';

export interface StallLimits {
  readonly stallCheck: boolean;
  /** 0: do not warn. */
  readonly stallWarningMs: number;
  /** 0: warn only. */
  readonly stallShutdownMs: number;
}

export interface StallWarning {
  readonly text: string;
  /** Of all ranks that wait, as far as this one knows, it is the first: one warning is enough for all. */
  readonly isFirst: boolean;
  /** This collective has been warned of before. */
  readonly isRepeated: boolean;
}

export interface StallReport {
  readonly warnings: readonly StallWarning[];
  readonly failure: HorovodError | undefined;
}

/** When each request was last warned of. */
export type WarnedRequests = WeakMap<Request, number>;

export interface StallInspection {
  readonly channels: readonly Channel[];
  readonly limits: StallLimits;
  readonly nowMs: number;
  /** This rank. */
  readonly rank: number;
  /** Is brought up to date. */
  readonly warned: WarnedRequests;
  /** What a rank is doing, as a sentence without its end: 'rank 3 (host2, pid 812) sleeps'. */
  describePeer(rank: number): string;
}

/** Missing ranks that are described one by one. */
const maxDescribed = 4;

/** Horovod's rule, and its words: a shutdown before the warning does not take place. */
export function stallNotice({
  stallCheck,
  stallWarningMs,
  stallShutdownMs,
}: StallLimits): string | undefined {
  if (!stallCheck || stallShutdownMs <= 0 || stallShutdownMs >= stallWarningMs) return undefined;
  return (
    `HOROVOD_STALL_SHUTDOWN_TIME_SECONDS (${stallShutdownMs / 1000}) is less than ` +
    `HOROVOD_STALL_CHECK_TIME_SECONDS (${stallWarningMs / 1000}), will not shutdown.`
  );
}

export function inspectStalls(inspection: StallInspection): StallReport {
  const { channels, limits, nowMs, rank, warned } = inspection;
  const warnings: StallWarning[] = [];
  let failure: HorovodError | undefined;
  const { stallWarningMs, stallShutdownMs } = limits;
  const endsJob = stallShutdownMs > 0 && stallShutdownMs >= stallWarningMs;
  for (const channel of channels) {
    for (const request of channel.pending) {
      // Others go on without a rank that has joined; it waits for exactly that to end.
      if (request.description.kind === 'join') continue;
      const waitedMs = nowMs - request.submittedAtMs;
      // A timer may come a little early by the other clock.
      const isLong = stallWarningMs > 0 && waitedMs >= stallWarningMs * 0.99;
      const warnedAtMs = warned.get(request);
      const isNews = isLong && nowMs - (warnedAtMs ?? Number.NEGATIVE_INFINITY) >= stallWarningMs * 0.99;
      const isOver = endsJob && failure === undefined && waitedMs >= stallShutdownMs;
      if (!isNews && !isOver) continue;
      const missing = channel.missingFor(request).filter((member) => member !== rank);
      const text = stallText(channel, request, waitedMs, missing, inspection);
      if (isNews) {
        warned.set(request, nowMs);
        const waiting = channel.members.filter((member) => !missing.includes(member));
        warnings.push({
          text,
          isFirst: waiting.length === 0 || Math.min(...waiting) === rank,
          isRepeated: warnedAtMs !== undefined,
        });
      }
      if (isOver) {
        failure = new HorovodError(
          'ERR_HVD_TIMEOUT',
          `${text} The job ends: this is longer than HOROVOD_STALL_SHUTDOWN_TIME_SECONDS.`,
          { rank: missing[0], tensor: nameOf(request.description) },
        );
      }
    }
  }
  return { warnings, failure };
}

function stallText(
  { members, uneven }: Pick<Channel, 'members' | 'uneven'>,
  request: Request,
  waitedMs: number,
  missing: readonly number[],
  { describePeer }: StallInspection,
): string {
  const seconds = Math.round(waitedMs / 1000);
  const label = labelOf(request.description);
  if (missing.length === 0) {
    return `${label} has waited ${seconds} s: all ranks have called it, but it has not finished.`;
  }
  const callers = members.filter((member) => !missing.includes(member));
  // An if around a collective: then the few that have called it are the ones to look at.
  const only =
    callers.length < missing.length
      ? `only ${listRanks(callers)} ${callers.length === 1 ? 'has' : 'have'} called it, and `
      : '';
  const who = `${only}${listRanks(missing)} ${missing.length === 1 ? 'has' : 'have'} not`;
  const described = missing.slice(0, maxDescribed).map(describePeer);
  const instead = described.map((text) => ` ${text.charAt(0).toUpperCase()}${text.slice(1)}.`).join('');
  const cause =
    uneven ??
    'The usual cause is an if around a collective, a rank that is much slower, or one that is stuck.';
  return `${label} has waited ${seconds} s: ${who}${only === '' ? ' called it' : ''}.${instead} ${cause}`;
}
