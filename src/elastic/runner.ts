// What a state and the loop of run() know of each other. State sees the job through an ElasticRunner, which exists only while
// run() runs; run() sees the state through a RunSide (state.ts), which users do not.

import type { HorovodError } from '../errors.ts';

/** Training steps of this process, in all its generations; those that are done again count once. */
export interface StepCount {
  readonly step: number;
}

/** What a state needs of the job. Outside of run() there is none, and commit() only saves. */
export interface ElasticRunner {
  readonly generation: number;
  readonly steps: StepCount;
  /**
   * Collective: asks whether the launcher wants another membership, and throws ERR_HVD_HOSTS_UPDATED on all ranks if it does.
   * `commit` is compared; ranks that commit at different points get ERR_HVD_MISMATCH.
   */
  check(commit: number): Promise<void>;
  checkSync(commit: number): void;
  /** The state was saved. */
  saved(): void;
  /** Whether this commit is one at which to check: the same answer on all ranks. */
  isDue(commit: number): boolean;
  /** Collective: the largest of the ranks' numbers. */
  highest(value: number): Promise<number>;
  highestSync(value: number): number;
}

/** A rank that the job has lost. */
export interface LostRank {
  /** Its rank in the generation before. */
  readonly rank: number;
  readonly host: string;
  /** What is known of the cause: "was killed by SIGKILL". */
  readonly how: string;
}

/** What has changed when training starts again. */
export interface Reset {
  /** The number of this membership; the first one is 1. */
  readonly generation: number;
  readonly rank: number;
  readonly size: number;
  /** Undefined on a rank that was not there before. */
  readonly previousRank: number | undefined;
  readonly previousSize: number;
  /** Ranks, as they are numbered now, that were not there before. */
  readonly joined: readonly number[];
  readonly lost: readonly LostRank[];
  /** Why the generation before has ended, on a rank that saw it fail. */
  readonly cause?: HorovodError | undefined;
}

/** Who takes part in a synchronization, as every rank knows it. */
export interface SyncPlan {
  /** Whose state counts. */
  readonly root: number;
  /** Ranks that do not have the root's commit, in ascending order. Empty: only small values are sent, to be sure. */
  readonly lacking: readonly number[];
  /** Whether this rank was not in the generation before: it has no state of its own. */
  readonly isNewcomer: boolean;
  /** For parts of which each rank has a shard. Undefined: no rank has any yet, or the job is not elastic. */
  readonly shards?: ShardPlan | undefined;
}

/** Where the shards are of the commit with which the new generation starts. Every rank that has some has gone back to it. */
export interface ShardPlan {
  /** In which this rank keeps it. */
  readonly slot: number;
  /** By shard, that is by rank of the generation it was cut for: the ranks of now that have it. */
  readonly holders: readonly (readonly number[])[];
  /** The shard that this rank has cut for itself; undefined on a rank that was not there. */
  readonly own: number | undefined;
}

/** One kind of state. State calls its methods in the same order on all ranks. */
export interface StatePart {
  /**
   * Keeps what there is now, instead of what was kept before in this slot. Slots are numbered from 0; there is more than one only
   * in states that have sharded parts, and these need parts with `hasSlots`.
   */
  save(slot?: number): void;
  /** Goes back to what was kept in this slot. Called only after save(). */
  restore(slot?: number): void;
  /** Whether save() and restore() heed their slot. Default: false. */
  readonly hasSlots?: boolean | undefined;
  /** What is kept in this slot will not be needed. */
  forget?(slot: number): void;
  /**
   * Collective. Takes over the root's values; what is kept stays as it is, because the root may be lost meanwhile. save()
   * follows when all parts have succeeded. Large values need not be sent if `plan.lacking` is empty.
   */
  sync(root: number, plan: SyncPlan): Promise<void>;
  /** Something short that is equal on all ranks if the values are. */
  digest?(): string;
  /** Whether this is a point to which the job can go back. The same answer on all ranks; commit() does nothing if false. */
  canSave?(): boolean;
}

/** A part of which each rank has a shard. Copies of it on other ranks make up for ranks that are lost. */
export interface ShardedPart extends StatePart {
  /** After so many commits copies are sent; undefined: as often as costs little. */
  readonly mirrorEvery: number | undefined;
  /** Counts what was reduced, to know when all ranks have got past a point. */
  readonly reductions: number;
  /**
   * Collective. Sends what is kept in the slot to the ranks that `holders` has for this rank, and keeps there what others send. A
   * failure leaves what other slots keep.
   */
  mirror(slot: number, holders: readonly (readonly number[])[]): Promise<void>;
  mirrorSync(slot: number, holders: readonly (readonly number[])[]): void;
  /** Something short for each shard that this rank has of what is kept in the slot, by a name of the shard. */
  shardDigests(slot: number): Readonly<Record<string, string>>;
}

export function isSharded(part: StatePart): part is ShardedPart {
  return 'mirrorSync' in part;
}
