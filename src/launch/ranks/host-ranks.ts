// HostRanks: the ranks of one host, wherever that is. Two implementations: LocalRanks starts processes of this
// machine; RemoteRanks has an agent on another machine do so, and the agent uses LocalRanks.

import type { Readable } from 'node:stream';
import type { ErrorRecord, FailureRecord, RankState } from '../../control/control-block.ts';
import type { ProcessEnd } from '../../control/process-status.ts';
import type { Slot } from '../hosts/plan-slots.ts';

/** What a rank leaves behind. */
export interface RankEnding {
  readonly end: ProcessEnd;
  /** Why it could not be started at all. */
  readonly spawnError?: string | undefined;
  /** Nobody knows how it ended, because its host was lost: what was seen of that. */
  readonly lost?: string | undefined;
}

/** What the control block of its host says about a rank. */
export interface RankTestament {
  readonly state: RankState;
  readonly lastWords?: ErrorRecord | undefined;
  readonly failure?: FailureRecord | undefined;
}

export interface StartedRank {
  readonly slot: Slot;
  /** On its host. Undefined if it could not be started. */
  readonly pid: number | undefined;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** False: a process that has escaped may hold the streams open for ever after the rank has ended. */
  readonly endsItsStreams: boolean;
  readonly ended: Promise<RankEnding>;
  /** Settles when nothing that the rank has left in its process group is running any more. */
  readonly cleared: Promise<void>;
  /** Undefined while no control block is known. */
  readonly testament: RankTestament | undefined;
  /** To its whole process group. */
  signal(signal: NodeJS.Signals): void;
}

export interface HostRanks {
  readonly hostname: string;
  readonly slots: readonly Slot[];
  /** Starts all ranks. A rank that could not be started has ended; nothing is thrown for it. */
  start(): Promise<readonly StartedRank[]>;
  /** The control block of this host is at `path`, on this host: exits are written there. */
  useControlBlock(path: string): void;
  /** All ranks have ended. Nothing is left after it. */
  close(): Promise<void>;
}
