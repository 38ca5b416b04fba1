// Runs of records, brought from a file into memory. A *piece* is a run of neighbouring records of one file whose bytes lie in one
// chunk of memory. Files whose records can be addressed are read where a run lies; all others (compressed ones) are read from
// the beginning, and a cursor stays where the last run ended, because the next one mostly follows it.

import { HorovodError } from '../../errors.ts';
import type { ReadHandle } from '../../files/file-system.ts';
import {
  type ByteFormat,
  dataFileError,
  type ElementFormat,
  type ElementRecord,
  type FormatFile,
  type RecordBlock,
  RecordRanges,
} from '../formats/format.ts';
import type { FolderImage } from '../formats/images/image-folder.ts';
import type { ElementBlocks } from './element-blocks.ts';

/** A file of the data set, with its index. */
export interface IndexedFile {
  readonly location: string;
  readonly size: number;
  readonly records: number;
  /** Number of its first record, counted through all files. */
  readonly first: number;
  /** Where records begin; null if they cannot be addressed. */
  readonly offsets: Float64Array | null;
  /** Records per block. */
  readonly blocks: readonly number[];
  /** What decoders have to know of the file; equal in all files of a source. */
  readonly columns?: unknown;
  /** The images of a folder. */
  readonly images?: readonly FolderImage[];
}

/** Rows in memory as a file; blocks let a shuffle mix them. */
export function memoryFile(rows: number): IndexedFile {
  const block = 256;
  const blocks = Array.from({ length: Math.ceil(rows / block) }, (_, each) =>
    Math.min(block, rows - each * block),
  );
  return { location: '', size: 0, records: rows, first: 0, offsets: null, blocks };
}

export type SourceFormat =
  | { readonly kind: 'bytes'; readonly format: ByteFormat }
  | { readonly kind: 'elements'; readonly format: ElementFormat }
  /** Parts of moduleDataset(). */
  | { readonly kind: 'parts'; readonly open: OpenPart };

/** The elements of one part, from its beginning. */
export type OpenPart = (place: PartPlace) => Promise<AsyncIterator<unknown> | Iterator<unknown>>;

export interface PartPlace {
  readonly part: number;
  readonly parts: number;
  readonly epoch: number;
  readonly seed: number;
}

export interface Piece {
  /** Counted within the file. */
  readonly first: number;
  readonly count: number;
  readonly bytes: number;
  readonly data:
    | {
        readonly kind: 'bytes';
        readonly chunk: Uint8Array;
        readonly starts: Uint32Array;
        /** −1: damaged. */
        readonly lengths: Int32Array;
      }
    | { readonly kind: 'elements'; readonly elements: readonly ElementRecord[] };
}

/** A piece, and the file it comes from. */
export interface Placed {
  readonly piece: Piece;
  readonly file: IndexedFile;
}

/** For what was still being read when the iterator ended. */
export function endedError(): HorovodError {
  return new HorovodError('ERR_HVD_STALE', 'the iterator has been ended.');
}

export type AllocateChunk = (bytes: number) => Uint8Array;

/** Reads runs of records of one file. Runs may be asked for at the same time. */
export class FileReader {
  readonly file: IndexedFile;
  readonly #source: SourceFormat;
  readonly #open: (file: IndexedFile) => Promise<ReadHandle>;
  readonly #allocate: AllocateChunk;
  readonly #blocks: ElementBlocks;
  readonly #onDamaged: (file: IndexedFile, bytes: readonly number[]) => void;
  #handle: Promise<ReadHandle> | undefined;
  readonly #cursors: StreamCursor[] = [];
  #isClosed = false;

  constructor(
    file: IndexedFile,
    source: SourceFormat,
    open: (file: IndexedFile) => Promise<ReadHandle>,
    allocate: AllocateChunk,
    blocks: ElementBlocks,
    onDamaged: (file: IndexedFile, bytes: readonly number[]) => void,
  ) {
    this.#onDamaged = onDamaged;
    this.file = file;
    this.#source = source;
    this.#open = open;
    this.#allocate = allocate;
    this.#blocks = blocks;
  }

  async read(first: number, count: number): Promise<Piece[]> {
    const file = await this.#formatFile();
    if (this.#source.kind === 'elements') return this.#readElements(file, this.#source.format, first, count);
    if (this.#source.kind === 'parts') throw new Error('parts are read by a PartReader');
    const { offsets } = this.file;
    if (offsets === null) return this.#stream(file, this.#source.format, first, count);
    return [await this.#readRange(file, this.#source.format, offsets, first, count)];
  }

  /** Runs that are being read end, with an error or not; none opens the file again. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const cursor of this.#cursors.splice(0)) await cursor.close();
    const handle = await this.#handle?.catch(() => undefined);
    this.#handle = undefined;
    await handle?.close();
  }

  async #formatFile(): Promise<FormatFile> {
    if (this.#isClosed) throw endedError();
    this.#handle ??= openChecked(this.file, this.#open);
    const handle = await this.#handle;
    return {
      location: this.file.location,
      size: handle.size,
      read: (target, position) => handle.read(target, position),
    };
  }

  async #readElements(
    file: FormatFile,
    format: ElementFormat,
    first: number,
    count: number,
  ): Promise<Piece[]> {
    const pieces: Piece[] = [];
    let start = 0;
    for (const length of this.file.blocks) {
      const [block, from, to] = [start, Math.max(first, start), Math.min(first + count, start + length)];
      start += length;
      if (from >= to) continue;
      const key = `${block} ${file.location}`;
      const all = await this.#blocks.get(key, () => format.read(file, block, length));
      const elements = all.slice(from - block, to - block);
      pieces.push({ first: from, count: to - from, bytes: 0, data: { kind: 'elements', elements } });
    }
    return pieces;
  }

  async #readRange(
    file: FormatFile,
    format: ByteFormat,
    offsets: Float64Array,
    first: number,
    count: number,
  ): Promise<Piece> {
    const offset = offsets[first] as number;
    const bytes = (offsets[first + count] as number) - offset;
    const chunk = this.#allocate(bytes);
    let done = 0;
    while (done < bytes) {
      const read = await file.read(chunk.subarray(done), offset + done);
      if (read === 0)
        throw dataFileError(
          file.location,
          `ends at ${offset + done}; it was longer when its records were counted.`,
        );
      done += read;
    }
    const ranges = new RecordRanges(count);
    format.split(chunk, { location: file.location, offset, isLast: true }, ranges);
    const starts = new Uint32Array(count);
    const lengths = new Int32Array(count).fill(-1);
    const damaged = new Set(ranges.damaged);
    let found = 0;
    for (let record = 0; record < count; record += 1) {
      if (damaged.has((offsets[first + record] as number) - offset)) continue;
      if (found >= ranges.count) break;
      starts[record] = ranges.starts[found] as number;
      lengths[record] = ranges.lengths[found] as number;
      found += 1;
    }
    if (found !== ranges.count || (damaged.size === 0 && found !== count)) {
      throw dataFileError(
        file.location,
        `has ${ranges.count} records from byte ${offset} on where its index says ${count}. The index is out of date, or the file was changed while it was read.`,
      );
    }
    return { first, count, bytes, data: { kind: 'bytes', chunk, starts, lengths } };
  }

  async #stream(file: FormatFile, format: ByteFormat, first: number, count: number): Promise<Piece[]> {
    // The nearest one before, also if it is still on its way; a run behind all of them starts at the beginning of the file.
    let best: StreamCursor | undefined;
    for (const cursor of this.#cursors) {
      if (cursor.end <= first && (best === undefined || cursor.end > best.end)) best = cursor;
    }
    if (best !== undefined) this.#cursors.splice(this.#cursors.indexOf(best), 1);
    const cursor = best ?? new StreamCursor((allocate) => format.stream(file, { skip: first, allocate }));
    this.#cursors.push(cursor);
    const taking = cursor.take(first, count, this.#allocate);
    const spare = this.#cursors.length > maxCursors ? this.#idleCursor() : undefined;
    try {
      const { pieces, isEnd, damaged } = await taking;
      if (damaged.length > 0) this.#onDamaged(this.file, damaged);
      if (!isEnd) return pieces;
      const found = (pieces.at(-1)?.first ?? first) + (pieces.at(-1)?.count ?? 0);
      throw dataFileError(
        file.location,
        `ends after ${found} records where its index says ${this.file.records}. The index is out of date, or the file was changed while it was read.`,
      );
    } catch (error) {
      if (this.#cursors.includes(cursor)) this.#cursors.splice(this.#cursors.indexOf(cursor), 1);
      await cursor.close();
      throw error;
    } finally {
      await spare?.close();
    }
  }

  /** Takes the one out that was used longest ago. */
  #idleCursor(): StreamCursor | undefined {
    const place = this.#cursors.findIndex(({ waiting }) => waiting === 0);
    return place < 0 ? undefined : this.#cursors.splice(place, 1)[0];
  }
}

/** Opens a file that has not changed since it was looked at. */
export async function openChecked(
  file: IndexedFile,
  open: (file: IndexedFile) => Promise<ReadHandle>,
): Promise<ReadHandle> {
  const handle = await open(file);
  if (handle.size === file.size) return handle;
  await handle.close();
  throw dataFileError(
    file.location,
    `has ${handle.size} bytes; it had ${file.size} when its records were counted. It was changed while it was read.`,
  );
}

/** Places at which a compressed file is read at the same time, if not all of them are in use. */
const maxCursors = 16;

/** Records that a cursor has brought into memory. */
export interface Taken {
  readonly pieces: Piece[];
  /** The file ended before. */
  readonly isEnd: boolean;
  /** Where damaged records are that were left out before or between them. */
  readonly damaged: readonly number[];
}

/** A place in a file that moves on. Runs behind each other wait for each other: a second cursor would read everything again. */
export class StreamCursor {
  /** Where it is when all runs that were asked for have been read. */
  end = 0;
  /** Runs that were asked for and have not been read. */
  waiting = 0;
  readonly #blocks: AsyncGenerator<RecordBlock, void, void>;
  #block: RecordBlock | undefined;
  #last: Promise<unknown> = Promise.resolve();
  /** Memory of the blocks before. */
  readonly #spare: Uint8Array[] = [];

  constructor(open: (allocate: AllocateChunk) => AsyncGenerator<RecordBlock, void, void>) {
    this.#blocks = open((bytes) => {
      const spare = this.#spare.pop();
      return spare !== undefined && spare.length >= bytes ? spare : new Uint8Array(bytes);
    });
  }

  take(first: number, count: number, allocate: AllocateChunk): Promise<Taken> {
    this.end = first + count;
    this.waiting += 1;
    const taking = this.#last
      .then(() => this.#take(first, count, allocate))
      .finally(() => {
        this.waiting -= 1;
      });
    this.#last = taking;
    taking.catch(() => {});
    return taking;
  }

  async #take(first: number, count: number, allocate: AllocateChunk): Promise<Taken> {
    const pieces: Piece[] = [];
    let next = first;
    const damaged: number[] = [];
    while (next < first + count) {
      if (this.#block === undefined || this.#block.first + this.#block.count <= next) {
        // Its records have been copied.
        if (this.#block !== undefined) this.#spare.push(new Uint8Array(this.#block.bytes.buffer));
        this.#block = undefined;
        const turn = await this.#blocks.next();
        if (turn.done) return { pieces, isEnd: true, damaged };
        this.#block = turn.value;
        damaged.push(...turn.value.damaged);
        continue;
      }
      const { first: start, count: length, bytes, starts, lengths } = this.#block;
      const [from, to] = [next - start, Math.min(length, first + count - start)];
      // A copy: the next run may need the rest of the block, and each piece has memory of its own.
      const [low, high] = [starts[from] as number, (starts[to - 1] as number) + (lengths[to - 1] as number)];
      const chunk = allocate(high - low);
      chunk.set(bytes.subarray(low, high));
      pieces.push({
        first: next,
        count: to - from,
        bytes: chunk.byteLength,
        data: {
          kind: 'bytes',
          chunk,
          starts: starts.slice(from, to).map((each) => each - low),
          lengths: Int32Array.from(lengths.subarray(from, to)),
        },
      });
      next = start + to;
    }
    return { pieces, isEnd: false, damaged };
  }

  async close(): Promise<void> {
    await this.#blocks.return();
  }
}
