// What the dispatcher of a job knows: which batches of the epoch are to be made, which worker makes them, who has been granted
// them and who has taken them. A batch goes through these states; each but the last can fall back to `pending`:
//
//   pending → leased (a worker makes it) → ready (made, and assigned to a consumer that has room) → granted (one consumer's
//   own) → taken (its training loop has it)
//
// Granted is final: it ends with `taken`, or with a restore() of all consumers, which begins a new *era*. The batches that fill
// up the last round are the *repeat group*, behind all others. Batches are named by (epoch, group, ordinal).

import type { Ranges } from './ranges.ts';
import type { Deal, Quota, Uneven } from './rounds.ts';

export interface BatchId {
  readonly epoch: number;
  readonly group: number;
  readonly ordinal: number;
}

/** What state() stores, and restore() goes back to. */
export interface Cut {
  readonly epoch: number;
  /** What was taken of each group. */
  readonly done: readonly Ranges[];
}

export interface LedgerOptions {
  readonly consumers: number;
  /** Batches of each group in an epoch; null: known when they have been made (after a filter). */
  readonly lengths: readonly (number | null)[];
  readonly uneven: Uneven;
  readonly isRoundRobin: boolean;
  /** Batches in a lease. */
  readonly leaseBatches: number;
  /** Batches that a consumer may hold and has not taken. */
  readonly depth: number;
}

export interface Group {
  readonly length: number | null;
  /** The first ordinal that was never leased. */
  readonly next: number;
  /** Below `next`, to be made again; sorted. */
  readonly returned: readonly number[];
  /** The worker that had the last lease. */
  readonly owner: number | null;
  /** Granted and not taken, with their consumers. */
  readonly granted: ReadonlyMap<number, number>;
  readonly taken: Ranges;
  /** Where the source stands behind a batch, so that another worker can go on there. */
  readonly behind: ReadonlyMap<number, unknown>;
}

export interface Lease {
  readonly worker: number;
  readonly group: number;
  /** Made so far: ordinals below it. */
  readonly next: number;
  readonly to: number;
}

export interface Ready extends BatchId {
  readonly worker: number;
  readonly lease: number;
  /** To whom the worker was told to send it. */
  readonly consumer: number | null;
}

export interface LedgerState {
  readonly options: LedgerOptions;
  readonly incarnation: number;
  readonly era: number;
  /** The cut at which the era began. */
  readonly cut: Cut;
  readonly epoch: number;
  /** The last one is the repeat group. */
  readonly groups: readonly Group[];
  readonly leases: ReadonlyMap<number, Lease>;
  /** Lease numbers only grow. */
  readonly lastLease: number;
  /** By `group/ordinal`. */
  readonly ready: ReadonlyMap<string, Ready>;
  /** Places for batches, by worker. */
  readonly workers: ReadonlyMap<number, number>;
  /** Consumers that are connected. */
  readonly present: ReadonlySet<number>;
  /** Of this era and epoch, granted to each consumer. */
  readonly counts: readonly number[];
  /** Consumers that have taken all that they get in this epoch. */
  readonly ended: ReadonlySet<number>;
  /** Null while some group's length is not known. */
  readonly quota: Quota | null;
  /** Round robin only. */
  readonly deal: Deal | null;
  /** Consumers that have not answered a new incarnation; nothing is granted before all have. */
  readonly awaited: ReadonlySet<number>;
  /** state(): marks of one number. */
  readonly mark: Mark | null;
  /** The number of the restore() with which the era began; 0: none. */
  readonly attempt: number;
  /** restore(): who has asked for it. */
  readonly restore: Restore | null;
}

export interface Mark {
  /** Counted in each era. */
  readonly number: number;
  readonly senders: ReadonlySet<number>;
  /** What the senders have taken since. */
  readonly since: readonly BatchId[];
  /** When all have sent it. */
  readonly cut: Cut | null;
}

export interface Restore {
  readonly attempt: number;
  readonly cut: Cut;
  readonly consumers: number;
  readonly senders: ReadonlySet<number>;
}

/** What comes in. `consumer` and `worker` are numbers that the dispatcher has checked. */
export type LedgerEvent =
  /** A worker is there and has room for so many batches: at the start, and whenever this changes. */
  | { readonly kind: 'room'; readonly worker: number; readonly room: number }
  | { readonly kind: 'worker-lost'; readonly worker: number }
  /** A consumer has connected, or is gone. What it was granted stays its own. */
  | { readonly kind: 'consumer'; readonly consumer: number; readonly isHere: boolean }
  | {
      readonly kind: 'made';
      readonly worker: number;
      readonly lease: number;
      readonly id: BatchId;
      readonly behind?: unknown;
    }
  /** The group ends: it has so many batches. */
  | { readonly kind: 'group-ended'; readonly worker: number; readonly lease: number; readonly length: number }
  /** The worker's connection to the consumer has ended before the batch was claimed. */
  | { readonly kind: 'undelivered'; readonly worker: number; readonly id: BatchId }
  | { readonly kind: 'claim'; readonly consumer: number; readonly era: number; readonly id: BatchId }
  | {
      readonly kind: 'taken';
      readonly consumer: number;
      readonly era: number;
      readonly ids: readonly BatchId[];
    }
  | { readonly kind: 'mark'; readonly consumer: number; readonly era: number; readonly number: number }
  /** When all of so many consumers have sent it, a new era begins. `attempt` grows with each restore(), on all of them alike. */
  | {
      readonly kind: 'restore';
      readonly consumer: number;
      readonly attempt: number;
      readonly consumers: number;
      readonly cut: Cut;
    }
  /** The answer of a consumer to a new incarnation. */
  | ({ readonly kind: 'report'; readonly consumer: number } & ConsumerReport);

export interface ConsumerReport {
  readonly era: number;
  readonly cut: Cut;
  /** Of the restore() with which this era began. */
  readonly attempt: number;
  /** That of the last batch it was granted: a consumer that has ended an epoch before others stays in it until then. */
  readonly epoch: number;
  /** Granted to it in this epoch and era, and of these taken. */
  readonly granted: readonly BatchId[];
  readonly taken: readonly BatchId[];
}

/** What goes out. */
export type LedgerMessage =
  | {
      readonly kind: 'lease';
      readonly worker: number;
      readonly lease: number;
      readonly epoch: number;
      readonly group: number;
      readonly from: number;
      readonly to: number;
      /** Where the source stands in front of the first batch, if it is known. */
      readonly start?: unknown;
    }
  /** Nothing more of this lease is to be made; null: of none, and what was made is of no use any more. */
  | { readonly kind: 'revoke'; readonly worker: number; readonly lease: number | null }
  /** The batch travels with its era: a consumer that has not heard of it yet keeps the batch, and claims it then. */
  | {
      readonly kind: 'send';
      readonly worker: number;
      readonly lease: number;
      readonly id: BatchId;
      readonly era: number;
      readonly consumer: number;
      readonly round: number | null;
    }
  /** Made under this lease, and granted to somebody or not needed: its memory is free. */
  | { readonly kind: 'release'; readonly worker: number; readonly lease: number; readonly id: BatchId }
  | { readonly kind: 'granted'; readonly consumer: number; readonly era: number; readonly id: BatchId }
  | { readonly kind: 'denied'; readonly consumer: number; readonly era: number; readonly id: BatchId }
  /** All consumers have answered the new incarnation: it now answers claims, also those that it has not answered. */
  | { readonly kind: 'opened'; readonly consumer: number }
  | { readonly kind: 'epoch-ended'; readonly consumer: number; readonly era: number; readonly epoch: number }
  | {
      readonly kind: 'cut';
      readonly consumer: number;
      readonly era: number;
      readonly number: number;
      readonly cut: Cut;
    }
  | {
      readonly kind: 'restored';
      readonly consumer: number;
      readonly era: number;
      readonly attempt: number;
      readonly cut: Cut;
    }
  /** The consumers ask for different things, or in an older era. */
  | { readonly kind: 'rejected'; readonly consumer: number; readonly era: number; readonly reason: string };

export function keyOf({ group, ordinal }: Pick<BatchId, 'group' | 'ordinal'>): string {
  return `${group}/${ordinal}`;
}
