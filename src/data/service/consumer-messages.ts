// What goes in and out of a consumer, which may run in another thread: plain data.

import type { PlainError } from '../execute/thread-messages.ts';
import type { ValueLayout } from './batch-bytes.ts';
import type { Layout } from './layout.ts';
import type { BatchId, Cut } from './ledger-state.ts';
import type { Waits } from './trainer-waits.ts';

/** What the training loop wants. */
export type ConsumerOrder =
  | { readonly kind: 'taken'; readonly era: number; readonly id: BatchId }
  | { readonly kind: 'mark'; readonly number: number }
  | { readonly kind: 'restore'; readonly attempt: number; readonly consumers: number; readonly cut: Cut }
  | ({ readonly kind: 'waits' } & Waits)
  /** Of a batch that the loop does not need any more: for a later one. */
  | { readonly kind: 'memory'; readonly buffer: ArrayBuffer }
  | { readonly kind: 'close' };

export type ConsumerEvent =
  | {
      readonly kind: 'opened';
      readonly layout: Layout;
      readonly lengths: readonly (number | null)[];
      readonly index: readonly string[];
      readonly era: number;
      readonly cut: Cut;
    }
  /** Granted. */
  | {
      readonly kind: 'batch';
      readonly era: number;
      readonly id: BatchId;
      readonly round: number | null;
      readonly value: ValueLayout | undefined;
      /** At the beginning of its memory. Undefined: no value needs any. */
      readonly payload: Uint8Array | undefined;
    }
  | { readonly kind: 'epoch-ended'; readonly era: number; readonly epoch: number }
  | { readonly kind: 'cut'; readonly era: number; readonly number: number; readonly cut: Cut }
  | { readonly kind: 'restored'; readonly era: number; readonly attempt: number; readonly cut: Cut }
  /** What it waits for, for errors. */
  | { readonly kind: 'state'; readonly text: string }
  | { readonly kind: 'warning'; readonly text: string }
  | { readonly kind: 'failed'; readonly error: PlainError };
