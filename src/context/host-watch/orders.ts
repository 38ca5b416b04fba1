// What the main thread and the watch's thread say to each other.

import type { FailureRecord } from '../../control/control-block.ts';
import type { WatcherOptions } from './watcher.ts';

export interface WatchThreadData {
  readonly secretHex: string;
  /** Whether the thread goes on when a watch is over, for the next one. */
  readonly isKept: boolean;
  /** [0]: number of the last order that has been carried out. */
  readonly served: SharedArrayBuffer;
}

/** Orders with a number are waited for by a blocked main thread. */
export type WatchOrder =
  /** Begins a watch, and ends the one before. `watch` counts them. */
  | { readonly type: 'open'; readonly watch: number; readonly options: Omit<WatcherOptions, 'secret'> }
  | {
      readonly type: 'connect';
      readonly candidates: readonly (readonly string[])[];
      readonly timeoutMs: number;
    }
  | { readonly type: 'abort' }
  | { readonly type: 'tell'; readonly number: number }
  | { readonly type: 'leave'; readonly number: number }
  | { readonly type: 'exit'; readonly number: number; readonly code: number };

/** `watch`: the one that it is about. Those of an earlier one come too late to matter. */
export type WatchReport = { readonly watch: number } & (
  | { readonly type: 'opened'; readonly candidates: readonly string[] }
  | { readonly type: 'connected' }
  | { readonly type: 'failed'; readonly failure: FailureRecord }
);
