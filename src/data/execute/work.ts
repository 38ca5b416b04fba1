// What passes between the main thread, the reader and the compute threads. An *item* of work is what is computed at once: the
// samples of one batch, or a run of elements. Items are numbered; whoever computes them, they come out in this order. An item is
// described by positions alone, so any process that has the plan and the files can compute it.

import type { ElementRecord } from '../formats/format.ts';
import type { StageTimes } from './busy-times.ts';

export interface WorkItem {
  readonly number: number;
  readonly epoch: number;
  readonly positions: readonly number[];
}

/** Where a sample comes from, for errors. */
export interface SampleOrigin {
  /** Empty if it comes from no file. */
  readonly url: string;
  /** Counted within the file; null: the file is the sample. */
  readonly record: number | null;
}

/** The origins of an item's samples: few objects, because they pass between threads with every item. Empty for rows in memory. */
export interface Origins {
  readonly urls: readonly string[];
  /** Which url each sample has. */
  readonly urlOf: Uint32Array;
  /** −1: the file is the sample. */
  readonly records: Float64Array;
}

export const noOrigins: Origins = { urls: [], urlOf: new Uint32Array(0), records: new Float64Array(0) };

export function originAt({ urls, urlOf, records }: Origins, row: number): SampleOrigin | undefined {
  const url = urls[urlOf[row] ?? -1];
  if (url === undefined) return undefined;
  const record = records[row] as number;
  return { url, record: record < 0 ? null : record };
}

/** A record that was left out. */
export interface DamagedRecord {
  readonly url: string;
  /** Counted within the file; null: not known. */
  readonly record: number | null;
  /** Where it begins; of a compressed file, in what it contains. */
  readonly byte: number;
}

/** The records of an item, in the order of its positions. */
export type ReadRecords =
  /** Bytes of each record: in which chunk, where and how many. A length of −1: the record is damaged and left out. */
  | {
      readonly kind: 'bytes';
      readonly chunks: readonly Uint8Array[];
      readonly chunkOf: Uint32Array;
      readonly starts: Uint32Array;
      readonly lengths: Int32Array;
    }
  | { readonly kind: 'elements'; readonly elements: readonly (ElementRecord | undefined)[] }
  /** Rows of an array, or numbers of a range. */
  | { readonly kind: 'rows'; readonly rows: Float64Array };

export interface ReadItem {
  readonly item: WorkItem;
  readonly records: ReadRecords;
  readonly origins: Origins;
  /** A part has ended: only the first of the item's positions exist, as many as `item` has here. */
  readonly isEnd?: boolean;
  /** Damaged records that were left out before. */
  readonly damaged?: number;
  /** Where damaged records are, also those that were left out before. */
  readonly damagedAt?: readonly DamagedRecord[];
  /** Of the reader since the item before. */
  readonly busy?: StageTimes;
  /** Requests that were repeated since the item before. */
  readonly retries?: number;
}

/** What became of an item. */
export interface Computed {
  /** Batches or elements. */
  readonly values: readonly unknown[];
  /** The row (place among the item's positions) that each value comes from, in growing order. */
  readonly rows: readonly number[];
  /** Damaged records that were left out. */
  readonly damaged: number;
  /** A part has ended after this many rows of the item. */
  readonly end?: number;
  readonly damagedAt?: readonly DamagedRecord[] | undefined;
  /** How long the stages were busy, those of the reader included. */
  readonly busy?: StageTimes | undefined;
  readonly retries?: number | undefined;
}
