// Which rank is to blame. Pure: from what ended when, and what each rank said last.

import type { ErrorRecord, FailureRecord } from '../../control/control-block.ts';
import type { ProcessEnd } from '../../control/process-status.ts';
import { signalNumber } from '../../control/process-status.ts';

export interface RankEnd {
  readonly rank: number;
  readonly hostname: string;
  readonly pid: number | undefined;
  readonly end: ProcessEnd;
  /** The signal horovodrun sent it before its end was seen. It may have ended by itself a moment earlier. */
  readonly endedBy: string | undefined;
  readonly lastWords: ErrorRecord | undefined;
  /** The other rank it died of; see `blamedRank`. */
  readonly blamed: number | undefined;
  /** Why the job failed, as the ranks of its host have recorded it. */
  readonly recorded?: string | undefined;
  /** The end of its stderr. */
  readonly stderrTail: readonly string[];
  /** Why it could not be started at all. */
  readonly spawnError?: string | undefined;
  /** Its host was lost, and nobody knows how the rank ended: what was seen of that. */
  readonly lost?: string | undefined;
}

/** 128 + number for a signal, as shells count. */
export function exitCodeOf(end: ProcessEnd): number {
  return 'signal' in end ? 128 + signalNumber(end.signal) : end.code;
}

export function isFailure(end: ProcessEnd): boolean {
  return exitCodeOf(end) !== 0;
}

/** It died of a signal, and horovodrun had sent one. */
export function wasEndedByUs({ end, endedBy }: Pick<RankEnd, 'end' | 'endedBy'>): boolean {
  return endedBy !== undefined && 'signal' in end;
}

/**
 * The other rank this one died of: its last words say so, or, if it has left none (the script caught the error
 * and exited), the failure that the ranks have recorded.
 */
export function blamedRank(
  rank: number,
  lastWords: ErrorRecord | undefined,
  failure: FailureRecord | undefined,
): number | undefined {
  const evidence = lastWords ?? failure;
  const isAftermath = evidence?.code === 'ERR_HVD_PEER_LOST' || evidence?.code === 'ERR_HVD_SHUT_DOWN';
  return isAftermath && evidence.rank !== rank ? evidence.rank : undefined;
}

/**
 * `ends` in the order in which the launcher saw them. The first failure is to blame, unless it died of another
 * rank: then that one, if it failed too and by itself (a rank that shut down too early but ended well is no
 * failure, and one that horovodrun had to end has nothing to say).
 */
export function findRootCause(ends: readonly RankEnd[]): RankEnd | undefined {
  const failures = ends.filter((one) => isFailure(one.end) && !wasEndedByUs(one));
  let suspect = failures[0] ?? ends.find(({ end }) => isFailure(end));
  const suspected = new Set<number>();
  while (suspect !== undefined && !suspected.has(suspect.rank)) {
    suspected.add(suspect.rank);
    const { blamed } = suspect;
    const other = failures.find(({ rank }) => rank === blamed);
    if (other === undefined) break;
    suspect = other;
  }
  return suspect;
}
