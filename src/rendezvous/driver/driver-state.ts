// What the driver of an elastic job knows, what happens to it (events) and what it wants done (orders). Plain data: driver.ts
// has the rules. A *worker* is a process, with a number that is never used again; it has a rank only within a generation.
//
// Phases: waiting (for workers: at the start, or because too few are left) → forming (a generation has been assigned) →
// running → collecting (a member was lost or has left: who is still there?) → waiting or forming …; finishing (all are
// done) or failing (the job cannot continue) → over when the last worker has ended.

import type { Assignment, JobEnd, LostRank, Ready } from '../elastic-messages.ts';
import type { CooldownRange } from './blacklist.ts';
import type { HostRecord } from './host-table.ts';
import type { PlanHost } from './plan.ts';

export interface Limits {
  /** How many must be there before the first step. */
  readonly np: number;
  readonly min: number;
  /** Undefined: all slots, but for the spares. */
  readonly max: number | undefined;
  /** Workers to keep waiting beside those that train. */
  readonly spares: number;
  /** How long too few are waited for. */
  readonly elasticTimeoutMs: number;
  /** How long the first generation, and each worker, may take until it is ready. */
  readonly readyTimeoutMs: number;
  /** Undefined: none. */
  readonly resetLimit: number | undefined;
  readonly cooldown: CooldownRange;
  /** How long a member that others wait for may take to report. */
  readonly collectTimeoutMs: number;
  /** How long a process that others wait for may be stopped; 0: for ever. */
  readonly stoppedTimeoutMs: number;
  /** Workers come by themselves ('arrived'), and none is started: a job without a launcher. */
  readonly isSelfStaffed?: boolean | undefined;
}

export type Phase = 'waiting' | 'forming' | 'running' | 'collecting' | 'finishing' | 'failing' | 'over';

/** A report that has not been answered. */
export interface Report extends Ready {
  /** The number of the report; its answer has the same. */
  readonly count: number;
  /** When it came. */
  readonly at: number;
}

export interface Worker {
  readonly number: number;
  readonly host: string;
  readonly slot: number;
  readonly startedAt: number;
  report?: Report | undefined;
  hadBeenReady: boolean;
  /** When the first generation that it was in was formed. */
  memberSince?: number | undefined;
  /** Since when its process is stopped. */
  stoppedSince?: number | undefined;
  /** When it was told to leave, and what was sent to it since. */
  leavingSince?: number | undefined;
  signalled?: NodeJS.Signals | undefined;
}

export interface Generation {
  readonly number: number;
  /** By rank. */
  readonly workers: readonly number[];
  readonly joined: readonly number[];
  /** By rank: the generation since which it has been the same worker. 1: since the first one that was formed. */
  readonly since: readonly number[];
  /** Steps that survivors had done since the commit from which it starts. */
  readonly repeatedSteps: number;
  /** Those that train, or are about to. */
  readonly formed: number[];
  /** More of them, because that commit was not complete any more. */
  wentBack?: number | undefined;
  /** When the last of them was. */
  formedAt?: number | undefined;
  isNoticed: boolean;
  isClosed: boolean;
}

/** A member that was lost, or was given up, since the last formed generation. */
export interface Loss extends LostRank {
  readonly worker: number;
  /** It was told to leave. */
  readonly isWanted: boolean;
}

export interface DriverState {
  readonly limits: Limits;
  /** Of the last tick. */
  now: number | undefined;
  /** Time that counts: time in which this process did not run is left out. All times below are of this clock. */
  clock: number;
  /** Of the pseudorandom numbers. */
  seed: number;
  phase: Phase;
  /** Since when it has been in this phase. */
  since: number;
  readonly hosts: HostRecord[];
  /** Those that have not ended, by number. */
  readonly workers: Map<number, Worker>;
  nextWorker: number;
  /** The last that was assigned. */
  generation?: Generation | undefined;
  /** The last that all its members have formed. */
  lastFormed?: Generation | undefined;
  /** Since then. */
  losses: Loss[];
  /** Since when there are fewer than needed. */
  tooFewSince?: number | undefined;
  /** When the reset that is under way began. */
  resetSince?: number | undefined;
  /** The first error that a member has reported since then. */
  resetCause?: ReportedError | undefined;
  resets: number;
  /** Generations in a row that failed while they were formed, although nobody died. */
  failedFormings: number;
  /** How the first worker that failed before anybody was ready has ended. */
  firstFailure?: string | undefined;
  hasBeenReady: boolean;
  /** Why the job fails. */
  failure?: { readonly code: JobEnd; readonly message: string } | undefined;
}

export type DriverEvent =
  | { readonly kind: 'tick'; readonly now: number }
  /** A signal came, and all workers are being stopped. */
  | { readonly kind: 'interrupted' }
  /** All hosts there are now. */
  | { readonly kind: 'hosts'; readonly hosts: readonly PlanHost[] }
  | { readonly kind: 'host-open'; readonly host: string }
  /** It cannot be used, or was lost. The ends of its workers follow. */
  | { readonly kind: 'host-failed'; readonly host: string }
  | { readonly kind: 'host-closed'; readonly host: string }
  /** A process has come by itself: it gets the number `nextWorker`. */
  | { readonly kind: 'arrived'; readonly host: string }
  | { readonly kind: 'ready'; readonly worker: number; readonly count: number; readonly ready: Ready }
  | {
      readonly kind: 'formed';
      readonly generation: number;
      readonly worker: number;
      /** How many steps it went back from its last commit. */
      readonly wentBack?: number | undefined;
    }
  /** Its process was stopped (state T), or continued. */
  | { readonly kind: 'stopped'; readonly worker: number; readonly isStopped: boolean }
  /** It does nothing while all others wait for it. */
  | { readonly kind: 'hanging'; readonly worker: number }
  | {
      readonly kind: 'ended';
      readonly worker: number;
      /** Completes 'rank 1 …'. */
      readonly how: string;
      readonly exitCode: number;
      /** It went with its host. */
      readonly isLost: boolean;
    };

export type Order =
  | { readonly kind: 'open-host'; readonly host: string }
  | { readonly kind: 'close-host'; readonly host: string }
  | {
      readonly kind: 'start';
      readonly worker: number;
      readonly host: string;
      readonly slot: number;
      /** The seat it will probably get. */
      readonly rank: number;
      readonly size: number;
    }
  | {
      readonly kind: 'signal';
      readonly worker: number;
      readonly signal: NodeJS.Signals;
      readonly why: string;
    }
  | {
      readonly kind: 'answer';
      readonly worker: number;
      readonly count: number;
      readonly assignment: Assignment;
    }
  /** The seats of a generation have been assigned. */
  | { readonly kind: 'form'; readonly generation: number; readonly workers: readonly number[] }
  /** Nothing of this generation is waited for any more. */
  | { readonly kind: 'close-generation'; readonly generation: number; readonly why: string }
  /** Its members are to leave it together at their next commit. */
  | { readonly kind: 'notice'; readonly generation: number }
  | ({ readonly kind: 'reset' } & Reset)
  | { readonly kind: 'too-few'; readonly available: number; readonly min: number }
  /** All members have been told that the job is finished. */
  | { readonly kind: 'finish' }
  | { readonly kind: 'fail'; readonly code: JobEnd; readonly message: string }
  | { readonly kind: 'over' };

/** A change of membership that is complete. */
export interface Reset {
  readonly generation: number;
  readonly size: number;
  readonly previousSize: number;
  readonly lost: readonly Loss[];
  readonly joined: readonly Newcomer[];
  /** Why it began, if nobody was lost. */
  readonly cause?: ReportedError | undefined;
  /** Training steps that are done again. */
  readonly repeatedSteps: number;
  /** From the first loss or report to the last formed. */
  readonly tookMs: number;
}

/** What a rank of the generation before has reported. */
export interface ReportedError {
  readonly rank: number;
  readonly host: string;
  readonly message: string;
}

/** A rank of this generation that was not in the one before. */
export interface Newcomer {
  readonly rank: number;
  readonly host: string;
}

export function initialState(limits: Limits, seed = 1): DriverState {
  return {
    limits,
    now: undefined,
    clock: 0,
    seed,
    phase: 'waiting',
    since: 0,
    hosts: [],
    workers: new Map(),
    nextWorker: 0,
    losses: [],
    resets: 0,
    failedFormings: 0,
    hasBeenReady: false,
  };
}
