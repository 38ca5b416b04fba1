// HostRanks: the ranks of one host. There are two implementations: LocalRanks starts processes on this machine; RemoteRanks
// uses an agent on another machine, and the agent uses LocalRanks.

import type { Readable } from 'node:stream';
import type { ErrorRecord, FailureRecord, RankState } from '../../control/control-block.ts';
import type { ProcessEnd } from '../../control/process-status.ts';
import type { JobView } from '../../observe/status/job-view.ts';
import type { RecordOrder, RecordProgress } from '../../observe/timeline/record-order.ts';
import type { JobNews } from '../../rendezvous/driver/job-news.ts';
import type { Slot } from '../hosts/plan-slots.ts';

/** How a rank ended. */
export interface RankEnding {
  readonly end: ProcessEnd;
  /** Why it could not be started at all. */
  readonly spawnError?: string | undefined;
  /** How its host was lost. How the rank itself ended is then unknown. */
  readonly lost?: string | undefined;
}

/** What the control block of its host says about a rank. */
export interface RankTestament {
  readonly state: RankState;
  readonly lastWords?: ErrorRecord | undefined;
  readonly failure?: FailureRecord | undefined;
  /** It was killed after the job had failed, because it could still write into the memory of other ranks. */
  readonly wasKilledByFence?: boolean | undefined;
}

export interface StartedRank {
  readonly slot: Slot;
  /** On its host. Undefined if it could not be started. */
  readonly pid: number | undefined;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** False: a process that has left the rank's group may keep the streams open after the rank has ended. */
  readonly endsItsStreams: boolean;
  readonly ended: Promise<RankEnding>;
  /** Settles when no process of the rank's group is running any more. */
  readonly cleared: Promise<void>;
  /** Undefined while no control block is known. */
  readonly testament: RankTestament | undefined;
  /** To its whole process group. */
  signal(signal: NodeJS.Signals): void;
}

export interface HostRanks {
  readonly hostname: string;
  /** Starts ranks, at any time. A rank that cannot be started counts as ended; nothing is thrown for it. */
  start(slots: readonly Slot[]): Promise<readonly StartedRank[]>;
  /** Exits are recorded in the control block at `path` on this host. `workers`: of an elastic job, by rank. */
  useControlBlock(path: string, workers?: readonly number[]): void;
  /** Tells the ranks of an elastic job, through that control block, to leave their generation together. */
  notice(): void;
  /** What `horovod status` shows of an elastic job: in that control block, and in the next ones. */
  tellNews(news: Omit<JobNews, 'pid'>): void;
  /** Its ranks record a timeline of the next steps. */
  record(order: RecordOrder): void;
  /** How far that is, as rank 0 on this host says; undefined: the host is another machine. */
  recordProgress(number: number): RecordProgress | undefined;
  /**
   * The job as its control block on this host shows it. Undefined: it is not known yet, or the host is another machine. `known`: as
   * that of another name of this machine shows it, for hosts of this machine.
   */
  look(known?: JobView): JobView | undefined;
  /** The terminal has this many columns for rank 0. */
  resizeTerminal(columns: number): void;
  /** Called after all ranks have ended; frees everything. */
  close(): Promise<void>;
}
