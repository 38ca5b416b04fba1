// What a file format gives the pipeline. A *record* is one sample as it lies in a file; a *block* is a run of records in
// memory; an *element* is a sample as users see it; a *row* is an element's place in a batch. The work is cut so that threads
// can share it: a reader finds the records of a file (index), brings bytes into memory the caller provides and finds the
// records in them (split, stream); a decoder turns one record into an element, or writes it into its row of typed arrays that
// the caller provides, which may lie in shared memory.

import { HorovodError } from '../../errors.ts';
import { shownLocation } from '../../files/location.ts';
import type { DType, TypedArray } from '../../tensor/dtype.ts';
import type { Tensor } from '../../tensor/tensor.ts';

/** A file of any file system, opened for reading; handles of src/files are such files. */
export interface FormatFile {
  /** For messages. */
  readonly location: string;
  readonly size: number;
  /** Fills as much of `target` as the file has from `position` on, and resolves to the number of bytes. */
  read(target: Uint8Array, position: number): Promise<number>;
}

/** How many records a file has, and where they are. */
export interface FileIndex {
  readonly records: number;
  /**
   * Where each record begins in the file, and where the last one ends: `records` + 1 numbers. Null if records cannot be
   * addressed (compressed files): the file is read from its beginning with stream().
   */
  readonly offsets: Float64Array | null;
  /** What decoders have to know of the file, as plain data: the names of its columns in CSV. */
  readonly columns?: unknown;
}

/** Records within one piece of memory. The lists grow as needed and are used again by the next split(). */
export class RecordRanges {
  count = 0;
  /** First byte of each record's data within the chunk. */
  starts: Uint32Array;
  /** Bytes of each record's data. */
  lengths: Uint32Array;
  /** Bytes of the chunk that belong to the records found; the rest belongs in front of the next chunk. */
  consumed = 0;
  /** How long the rest must become at least before another record can be found; 0 if nothing is known. */
  needed = 0;
  /** Damaged records that were skipped: where they begin in the chunk. */
  readonly damaged: number[] = [];

  constructor(capacity = 1024) {
    this.starts = new Uint32Array(capacity);
    this.lengths = new Uint32Array(capacity);
  }

  add(start: number, length: number): void {
    if (this.count === this.starts.length) this.grow();
    this.starts[this.count] = start;
    this.lengths[this.count++] = length;
  }

  grow(): void {
    const [{ starts }, { lengths }] = [this, this];
    this.starts = new Uint32Array(2 * starts.length);
    this.starts.set(starts);
    this.lengths = new Uint32Array(2 * lengths.length);
    this.lengths.set(lengths);
  }

  clear(): void {
    this.count = 0;
    this.consumed = 0;
    this.needed = 0;
    this.damaged.length = 0;
  }
}

/** Where a chunk comes from, for messages and for formats whose first bytes are special. */
export interface ChunkPlace {
  readonly location: string;
  /** Where the chunk begins in the file (in a compressed file: in its content). */
  readonly offset: number;
  /** Nothing follows: what is not a whole record is an error. */
  readonly isLast: boolean;
}

/** A format whose records are runs of bytes in a file: TFRecord, lines, CSV, npy. */
export interface ByteFormat {
  readonly name: string;
  /** Reads as little of the file as it can. */
  index(file: FormatFile): Promise<FileIndex>;
  /**
   * Finds the whole records in a chunk that begins where a record begins, and clears what `ranges` held before. Damaged
   * records are ERR_HVD_DATA_FILE, or counted in `ranges.damaged` if the format was made with `onCorrupt: 'skip'`.
   */
  split(chunk: Uint8Array, place: ChunkPlace, ranges: RecordRanges): void;
  /**
   * The content of the file from its beginning, decompressed, as blocks of whole records. `allocate` provides the memory;
   * each block has its own. Works for every file, and is the only way to read a compressed one.
   */
  stream(file: FormatFile, options?: StreamOptions): AsyncGenerator<RecordBlock, void, void>;
}

export interface StreamOptions {
  /** Aim at blocks of this many bytes; a longer record makes a longer block. */
  readonly blockBytes?: number;
  /** Memory for a block; a Uint8Array of its own if left out. */
  readonly allocate?: (bytes: number) => Uint8Array;
  /** Memory of allocate() that became no block. */
  readonly release?: (memory: Uint8Array) => void;
  /** Records to leave out at the beginning. */
  readonly skip?: number;
  readonly signal?: AbortSignal | undefined;
}

/** A format whose records are not runs of bytes: Parquet. Blocks are its row groups. */
export interface ElementFormat {
  readonly name: string;
  /** Where each block of records begins: numbers of records, the last one is their total. */
  index(file: FormatFile): Promise<{ readonly records: number; readonly blocks: readonly number[] }>;
  /** The elements [first, first + count); cheapest for whole blocks. */
  read(file: FormatFile, first: number, count: number): Promise<readonly ElementRecord[]>;
}

/** Records in memory. */
export interface RecordBlock {
  readonly location: string;
  /** Number of the first record in its file. */
  readonly first: number;
  readonly count: number;
  /** Where `bytes` begins in the file (in a compressed file: in its content). */
  readonly offset: number;
  readonly bytes: Uint8Array;
  readonly starts: Uint32Array;
  readonly lengths: Uint32Array;
  /** Damaged records that were skipped before or between them: their offsets in the file's content. */
  readonly damaged: readonly number[];
}

/** One value of an element: a tensor, a byte string or a text, or a list of byte strings. */
export type ElementValue = Tensor | Uint8Array | string | number | readonly Uint8Array[];

/** A sample: named values, or a single one. */
export type ElementRecord = Readonly<Record<string, ElementValue>>;

/** A column of a batch: each row has `shape` values of the same type. */
export interface ColumnLayout {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** Product of the shape. */
  readonly elements: number;
}

/** One typed array per column, in the order of the layout; row r has the elements from r · elements on. */
export type BatchColumns = readonly TypedArray[];

/** Turns records into elements. */
export interface Decoder {
  /** The columns, if every row has the same ones; null if the sizes of values differ (then there is no fill()). */
  readonly columns: readonly ColumnLayout[] | null;
  /** The element in bytes[start, start + length). It keeps no view of `bytes`. */
  element(bytes: Uint8Array, start: number, length: number): ElementRecord;
  /** Writes the record into row `row` of the columns; nothing is allocated. */
  fill(bytes: Uint8Array, start: number, length: number, row: number, target: BatchColumns): void;
}

/** A decoder that waits for others: images are decoded by threads of sharp. Records may be decoded at the same time. */
export interface AsyncDecoder {
  readonly columns: readonly ColumnLayout[];
  element(bytes: Uint8Array, start: number, length: number): Promise<ElementRecord>;
  fill(bytes: Uint8Array, start: number, length: number, row: number, target: BatchColumns): Promise<void>;
}

/** A damaged or unexpected file: what, where and what to do. */
export function dataFileError(location: string, detail: string, cause?: unknown): HorovodError {
  return new HorovodError('ERR_HVD_DATA_FILE', `${shownLocation(location)}: ${detail}`, { cause });
}
