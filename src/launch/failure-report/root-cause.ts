// Which rank failed first, derived from the order in which ranks ended and from their last errors. Pure functions.

import type { ErrorRecord, FailureRecord, RankState } from '../../control/control-block.ts';
import type { ProcessEnd } from '../../control/process-status.ts';
import { signalNumber } from '../../control/process-status.ts';
import type { UncaughtError } from '../output/uncaught-errors.ts';

export interface RankEnd {
  readonly rank: number;
  /** What it is called. Default: 'rank 3'. */
  readonly name?: string | undefined;
  readonly hostname: string;
  readonly pid: number | undefined;
  readonly end: ProcessEnd;
  /** The signal that horovodrun sent it before it saw its end. The rank may have ended by itself just before. */
  readonly endedBy: string | undefined;
  /** That signal came because others waited for it with the fence: the job had failed before. */
  readonly wasKilledByFence?: boolean | undefined;
  readonly lastWords: ErrorRecord | undefined;
  /** The other rank whose loss it reported; see `blamedRank`. */
  readonly blamed: number | undefined;
  /** Why the job failed, as recorded by the ranks of its host. */
  readonly recorded?: string | undefined;
  /** The end of its stderr. */
  readonly stderrTail: readonly string[];
  /** The error that ended it, as it is on its stderr. */
  readonly uncaught?: UncaughtError | undefined;
  /** What it had said when it ended; undefined: not known. */
  readonly state?: RankState | undefined;
  /** Why it could not be started at all. */
  readonly spawnError?: string | undefined;
  /** How its host was lost. How the rank itself ended is then unknown. */
  readonly lost?: string | undefined;
}

/** 128 + number for a signal, as shells count. */
export function exitCodeOf(end: ProcessEnd): number {
  return 'signal' in end ? 128 + signalNumber(end.signal) : end.code;
}

export function isFailure(end: ProcessEnd): boolean {
  return exitCodeOf(end) !== 0;
}

/** It ended well by itself, in the middle of the job: it had not called shutdown(). */
export function leftWithoutWord({ end, state }: Pick<RankEnd, 'end' | 'state'>): boolean {
  return !isFailure(end) && (state === 'attached' || state === 'absent');
}

/** A signal ended it, and horovodrun had sent one. */
export function wasEndedByUs({ end, endedBy }: Pick<RankEnd, 'end' | 'endedBy'>): boolean {
  return endedBy !== undefined && 'signal' in end;
}

/**
 * The other rank whose loss made this one fail, according to its last error or, if it left none (because the script
 * caught the error and exited), to the failure that the ranks have recorded.
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
 * `ends` is in the order in which the launcher saw them. The cause is the first failure, unless that rank blames another
 * one that also failed by itself, or ended without shutdown(). (A rank that shut down early and ended well has not failed, and
 * one that horovodrun stopped did not fail by itself.)
 */
export function findRootCause(ends: readonly RankEnd[]): RankEnd | undefined {
  const failures = ends.filter((one) => isFailure(one.end) && !wasEndedByUs(one));
  let suspect = failures[0] ?? ends.find(({ end }) => isFailure(end));
  const suspected = new Set<number>();
  while (suspect !== undefined && !suspected.has(suspect.rank)) {
    suspected.add(suspect.rank);
    const { blamed } = suspect;
    const other = ends.find((one) => one.rank === blamed && (failures.includes(one) || leftWithoutWord(one)));
    if (other === undefined) break;
    suspect = other;
  }
  return suspect;
}

/** The rank whose exit code is that of the job: the cause, or, if that ended well, the first that failed because of it. */
export function exitingRank(cause: RankEnd, ends: readonly RankEnd[]): RankEnd {
  if (isFailure(cause.end)) return cause;
  return ends.find((one) => isFailure(one.end) && !wasEndedByUs(one)) ?? cause;
}
