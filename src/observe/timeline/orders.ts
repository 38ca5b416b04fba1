// The messages between the main thread of rank 0 and the thread of the collector.

import type { CollectorOptions, TraceBeginning } from './collector.ts';

export interface CollectorThreadData {
  readonly options: Omit<CollectorOptions, 'write'>;
  /** [0] becomes 1 when the file is finally closed. */
  readonly over: SharedArrayBuffer;
}

/** Read the remaining events and close the file. `patienceMs`: how long to wait for ranks whose timeline is still on. */
export interface CollectorOrder {
  readonly type: 'stop';
  readonly patienceMs: number;
}

export type CollectorReport =
  | { readonly type: 'opened'; readonly beginning: TraceBeginning }
  /** The file could not be opened. */
  | { readonly type: 'rejected'; readonly code: string; readonly message: string }
  /** Writing failed. Earlier events are in the file. */
  | { readonly type: 'broken'; readonly code: string; readonly message: string }
  | { readonly type: 'closed'; readonly dropped: number };
