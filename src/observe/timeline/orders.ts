// What the main thread of rank 0 and its collector's thread say to each other.

import type { CollectorOptions } from './collector.ts';

export interface CollectorThreadData {
  readonly options: Omit<CollectorOptions, 'write'>;
  /** [0]: 1 once the file is closed for good. */
  readonly over: SharedArrayBuffer;
}

/** Read the rest and close the file. `patienceMs`: how long to wait for ranks that have not ended theirs. */
export interface CollectorOrder {
  readonly type: 'stop';
  readonly patienceMs: number;
}

export type CollectorReport =
  | { readonly type: 'opened' }
  /** The file could not be opened. */
  | { readonly type: 'rejected'; readonly code: string; readonly message: string }
  /** It could not be written any more; what was written before is there. */
  | { readonly type: 'broken'; readonly code: string; readonly message: string }
  | { readonly type: 'closed'; readonly dropped: number };
