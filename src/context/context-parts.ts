// What a context is made of, and where its rank stands.

import type { Log } from '../console/log.ts';
import type { TunableLimits } from '../engine/autotune/tuned.ts';
import type { StepClock } from '../engine/step-clock.ts';
import type { HorovodError } from '../errors.ts';
import type { FlightPlace } from '../observe/flight-recorder/flight-dumper.ts';
import type { StallLimits } from '../observe/stalls/stall-inspector.ts';
import type { StatusPlace } from '../observe/status/status-writer.ts';
import type { TimelineBlock, TimelineHistory } from '../observe/timeline/timeline.ts';
import type { ProcessSet } from '../operations/process-set.ts';
import type { GroupSpec, Transport, TransportGroup } from '../transport/transport.ts';

/** Where this rank stands. */
export interface World {
  readonly rank: number;
  readonly size: number;
  readonly localRank: number;
  readonly localSize: number;
  readonly crossRank: number;
  readonly crossSize: number;
  readonly isHomogeneous: boolean;
}

export interface ContextLimits extends StallLimits, Readonly<TunableLimits> {
  readonly operationTimeoutMs: number;
  readonly startTimeoutMs: number;
  readonly flightRecords: number;
  /** Undefined: 0, no warnings. */
  readonly stragglerPercent?: number | undefined;
  /** Whether adapters compare weights and data of the ranks. Undefined: true. */
  readonly divergenceCheck?: boolean | undefined;
  readonly timelineMaxMb?: number;
  readonly timelineOperationsPerSecond?: number;
  readonly shmDirectory?: string | undefined;
}

/** What a context is made of; bootstrap.ts and horovod/testing put it together. */
export interface ContextParts {
  readonly world: World;
  readonly transport: Transport;
  /** Opens the group of all ranks; undefined: the transport does, as for any other. */
  readonly openGroup?: ((spec: GroupSpec) => Promise<TransportGroup>) | undefined;
  readonly limits: ContextLimits;
  readonly log: Log;
  readonly hasDynamicProcessSets: boolean;
  readonly processSet: ProcessSet;
  /** Every rank gives a text and gets those of all, before the global group exists. */
  exchange(text: string): Promise<readonly string[]>;
  /** Aborted when another rank fails before that, with its error as the reason. */
  readonly startSignal?: AbortSignal | undefined;
  /** Numbers by which the control block knows the ranks; the ranks themselves but for init({ ranks }). */
  readonly members: readonly number[];
  /** Number of each rank's host; undefined: all on one. */
  readonly hostOf?: readonly number[] | undefined;
  /** Where this rank says what it does; undefined: nowhere. */
  readonly status?: StatusPlace | undefined;
  /** Where timelines of this host meet; undefined: this rank has its own alone. */
  readonly timelineBlock?: TimelineBlock | undefined;
  /** Where this rank leaves its flight record; undefined: nowhere. */
  readonly flight?: FlightPlace | undefined;
  /** Of an elastic job, whose ranks may change: sets that were different with more ranks may be equal now. */
  readonly worker?: { readonly number: number; readonly timelines: TimelineHistory } | undefined;
  /** Of a worker that was in generations before this one. Default: a new one. */
  readonly steps?: StepClock | undefined;
  /** Whether the driver of an elastic job wants another membership. */
  hasNotice?(): boolean;
  /** Process of a rank of this host; 0 or undefined: of another, or not known. */
  pidOf?(rank: number): number;
  /** Tells all ranks that the job has failed. */
  failJob(error: HorovodError): void;
  /** Says that this rank goes in good order. Before anything is closed: a transport that ends without it is a death. */
  leave(): void;
  /** After everything else has been closed. */
  close(): void;
}

export interface CreateOptions {
  readonly processSets?: readonly ProcessSet[];
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number;
}
