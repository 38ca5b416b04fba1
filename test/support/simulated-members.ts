// What the workers and consumers of ledger-simulation.ts know.

import { type BatchId, type Cut, keyOf, type LedgerEvent } from '../../src/data/service/ledger-state.ts';

export interface Worker {
  readonly number: number;
  isFrozen: boolean;
  leases: { number: number; epoch: number; group: number; next: number; to: number }[];
  readonly seen: Set<number>;
  readonly made: Map<string, BatchId>;
}

export interface Consumer {
  readonly number: number;
  era: number;
  cut: Cut;
  attempt: number;
  /** Of the last batch it was granted. */
  epoch: number;
  /** It has heard that this epoch has ended for it. */
  hasEnded: boolean;
  /** Batches that it holds, by key with epoch. */
  ring: Map<string, { readonly id: BatchId; readonly round: number | null; isGranted: boolean }>;
  /** Of an era that it has not heard of. */
  readonly early: Arrival[];
  /** Of this era and epoch. */
  taken: Map<string, BatchId>;
  /** Since the last restore(). */
  steps: number;
  marks: number;
  /** Restore() that has not been answered. */
  restoring: Extract<LedgerEvent, { kind: 'restore' }> | undefined;
}

export interface Arrival {
  readonly id: BatchId;
  readonly era: number;
  readonly round: number | null;
}

export interface Taken {
  readonly consumer: number;
  readonly step: number;
  readonly id: BatchId;
}

/** Where its training loop is. */
export function epochOf({ epoch, hasEnded }: Consumer): number {
  return hasEnded ? epoch + 1 : epoch;
}

export function ringKey(id: BatchId): string {
  return `${id.epoch}/${keyOf(id)}`;
}
