// The reader: from the positions of an item to its records in memory. With a shuffle pool it reads whole stretches, and keeps
// each until its last record has been used; otherwise it reads the runs that an item needs. It runs in a thread of its own, or in
// the main thread.

import type { ReadHandle } from '../../files/file-system.ts';
import type { ElementRecord } from '../formats/format.ts';
import { type Block, blocksOf } from '../order/blocks.ts';
import { EpochOrder } from '../order/stretches.ts';
import { ElementBlocks } from './element-blocks.ts';
import {
  type AllocateChunk,
  endedError,
  FileReader,
  type IndexedFile,
  type Piece,
  type SourceFormat,
} from './pieces.ts';
import type { ReadItem, ReadRecords, SampleOrigin, WorkItem } from './work.ts';

/** What the order depends on; plain data, so that threads can be given it. */
export interface ReadOrder {
  readonly seed: number;
  readonly lanes: number;
  readonly pool: number | 'all' | undefined;
  /** Records that exist for the pipeline. */
  readonly records: { readonly skip: number; readonly take: number };
  /** Positions before the first one. */
  readonly skip: number;
  /** Only every n-th record, from `first` on: shard 'records'. */
  readonly stride?: { readonly first: number; readonly step: number } | undefined;
}

export interface ReaderOptions {
  /** Undefined: rows in memory, which need not be read. */
  readonly source: SourceFormat | undefined;
  readonly files: readonly IndexedFile[];
  readonly order: ReadOrder;
  readonly open: (file: IndexedFile) => Promise<ReadHandle>;
  readonly allocate: AllocateChunk;
  /** Gets chunks that nobody uses any more. */
  readonly recycle?: (chunk: Uint8Array) => void;
  /** How many runs are read at the same time. */
  readonly interleave: number;
  readonly memoryBytes: number;
}

/** The blocks of an epoch: those of the files, cut to the records that exist. */
export function blocksOfOrder(files: readonly IndexedFile[], { records, stride }: ReadOrder): Block[] {
  const end = records.skip + records.take;
  const blocks: Block[] = [];
  for (const { first, length } of blocksOf(files)) {
    const [from, to] = [Math.max(first, records.skip), Math.min(first + length, end)];
    if (from >= to) continue;
    if (stride === undefined) {
      blocks.push({ first: from, length: to - from });
      continue;
    }
    // Numbered anew: record k of this rank is record k · step + first of all.
    const rank = (record: number) => Math.ceil((record - stride.first) / stride.step);
    if (rank(to) > rank(from)) blocks.push({ first: rank(from), length: rank(to) - rank(from) });
  }
  return blocks;
}

interface Kept {
  readonly pieces: Promise<Placed[]>;
  /** Records that nobody has used yet. */
  unused: number;
  /** Items that use it. */
  users: number;
  bytes: number;
  /** Nobody will ask for it again: its memory is free when the last item is done. */
  isForgotten: boolean;
}

interface Placed {
  readonly piece: Piece;
  readonly file: IndexedFile;
}

export class Reader {
  readonly #options: ReaderOptions;
  readonly #blocks: readonly Block[];
  readonly #orders = new Map<number, EpochOrder>();
  readonly #readers = new Map<IndexedFile, FileReader>();
  /** Stretches by epoch and number, the one used last at the end. */
  readonly #kept = new Map<string, Kept>();
  #keptBytes = 0;
  /** What each item uses, until release(). */
  readonly #inUse = new Map<number, Kept[]>();
  readonly #elementBlocks: ElementBlocks;
  #reading = 0;
  #isClosed = false;
  readonly #queue: (() => void)[] = [];

  constructor(options: ReaderOptions) {
    this.#options = options;
    this.#blocks = blocksOfOrder(options.files, options.order);
    this.#elementBlocks = new ElementBlocks(options.memoryBytes);
  }

  read(item: WorkItem): ReadItem | Promise<ReadItem> {
    const order = this.#orderOf(item.epoch);
    const { skip, stride } = this.#options.order;
    const places = item.positions.map((position) => order.at(position + skip));
    const real = (record: number) => (stride === undefined ? record : record * stride.step + stride.first);
    if (this.#options.source === undefined) {
      const rows = Float64Array.from(places, ({ record }) => real(record));
      return { item, records: { kind: 'rows', rows }, origins: [] };
    }
    const records = places.map(({ record }) => real(record));
    const { pool } = this.#options.order;
    return typeof pool === 'number'
      ? this.#readStretches(item, order, records, places)
      : this.#readRuns(item, records);
  }

  /** The item has been computed: the memory of its records may be used again. */
  release(number: number): void {
    const kept = this.#inUse.get(number) ?? [];
    this.#inUse.delete(number);
    for (const each of kept) {
      each.users -= 1;
      this.#free(each);
    }
    this.#forget();
  }

  /** The number of a position's record, through all files. */
  recordAt(epoch: number, position: number): number {
    return this.#orderOf(epoch).at(position + this.#options.order.skip).record;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#kept.clear();
    for (const reader of this.#readers.values()) await reader.close();
    this.#readers.clear();
  }

  async #readRuns(item: WorkItem, records: readonly number[]): Promise<ReadItem> {
    const sorted = Float64Array.from(records).sort();
    const runs: Block[] = [];
    for (const record of sorted) {
      const last = runs.at(-1);
      if (last !== undefined && record <= last.first + last.length) {
        runs[runs.length - 1] = { first: last.first, length: record + 1 - last.first };
      } else runs.push({ first: record, length: 1 });
    }
    const pieces = this.#readBlocks(runs);
    this.#inUse.set(item.number, [{ pieces, unused: 0, users: 1, bytes: 0, isForgotten: true }]);
    return this.#itemOf(item, records, await pieces);
  }

  async #readStretches(
    item: WorkItem,
    order: EpochOrder,
    records: readonly number[],
    places: readonly { readonly stretch: number }[],
  ): Promise<ReadItem> {
    const { stride } = this.#options.order;
    const used = new Map<number, number>();
    for (const { stretch } of places) used.set(stretch, (used.get(stretch) ?? 0) + 1);
    const kept: Kept[] = [];
    for (const [id, count] of used) {
      const key = `${item.epoch} ${id}`;
      let found = this.#kept.get(key);
      if (found === undefined) {
        const { runs, length } = order.stretch(id);
        const real =
          stride === undefined
            ? runs
            : runs.map(({ first, length: run }) => ({
                first: first * stride.step + stride.first,
                length: (run - 1) * stride.step + 1,
              }));
        found = { pieces: this.#readBlocks(real), unused: length, users: 0, bytes: 0, isForgotten: false };
        const made = found;
        found.pieces.then(
          (pieces) => {
            made.bytes = pieces.reduce((sum, { piece }) => sum + piece.bytes, 0);
            this.#keptBytes += made.bytes;
          },
          () => this.#kept.delete(key),
        );
      } else this.#kept.delete(key);
      this.#kept.set(key, found);
      found.users += 1;
      found.unused -= count;
      kept.push(found);
    }
    this.#inUse.set(item.number, kept);
    const pieces = await Promise.all(kept.map((each) => each.pieces));
    return this.#itemOf(item, records, pieces.flat());
  }

  /** Gives up stretches that are used up, and those used longest ago where memory is short: they would be read again. */
  #forget(): void {
    for (const [key, kept] of this.#kept) {
      if (kept.users > 0 || (kept.unused > 0 && this.#keptBytes <= this.#options.memoryBytes)) continue;
      this.#kept.delete(key);
      this.#keptBytes -= kept.bytes;
      kept.isForgotten = true;
      this.#free(kept);
    }
  }

  #free({ pieces, users, isForgotten }: Kept): void {
    const { recycle } = this.#options;
    if (recycle === undefined || users > 0 || !isForgotten) return;
    pieces.then(
      (placed) => {
        for (const { piece } of placed) if (piece.data.kind === 'bytes') recycle(piece.data.chunk);
      },
      () => {},
    );
  }

  async #readBlocks(blocks: readonly Block[]): Promise<Placed[]> {
    const parts: { file: IndexedFile; first: number; count: number }[] = [];
    for (const { first, length } of blocks) {
      for (let record = first; record < first + length; ) {
        const file = this.#fileOf(record);
        const count = Math.min(first + length, file.first + file.records) - record;
        parts.push({ file, first: record - file.first, count });
        record += count;
      }
    }
    const placed = await Promise.all(
      parts.map(async ({ file, first, count }) => {
        await this.#turn();
        try {
          const pieces = await this.#readerOf(file).read(first, count);
          return pieces.map((piece) => ({ piece, file }));
        } finally {
          this.#endTurn();
        }
      }),
    );
    return placed.flat();
  }

  /** At most `interleave` reads at a time. */
  async #turn(): Promise<void> {
    if (this.#reading >= this.#options.interleave) {
      await new Promise<void>((go) => {
        this.#queue.push(go);
      });
    }
    this.#reading += 1;
  }

  #endTurn(): void {
    this.#reading -= 1;
    this.#queue.shift()?.();
  }

  #itemOf(item: WorkItem, records: readonly number[], placed: readonly Placed[]): ReadItem {
    const sorted = [...placed].sort((a, b) => startOf(a) - startOf(b));
    const found = records.map((record) => pieceOf(sorted, record));
    const origins = found.map(({ file }, row): SampleOrigin => {
      const record = (records[row] as number) - file.first;
      const image = file.images?.[record];
      return image === undefined ? { url: file.location, record } : { url: image.location, record: null };
    });
    const within = (row: number) => {
      const { piece, file } = found[row] as Placed;
      return (records[row] as number) - file.first - piece.first;
    };
    if (this.#options.source?.kind === 'elements') {
      const elements = found.map(({ piece }, row) =>
        piece.data.kind === 'elements' ? (piece.data.elements[within(row)] as ElementRecord) : undefined,
      );
      return { item, records: { kind: 'elements', elements }, origins };
    }
    const numbers = new Map<Uint8Array, number>();
    const chunkOf = new Uint32Array(records.length);
    const starts = new Uint32Array(records.length);
    const lengths = new Int32Array(records.length);
    for (const [row, { piece }] of found.entries()) {
      if (piece.data.kind !== 'bytes') continue;
      const { chunk } = piece.data;
      if (!numbers.has(chunk)) numbers.set(chunk, numbers.size);
      chunkOf[row] = numbers.get(chunk) as number;
      starts[row] = piece.data.starts[within(row)] as number;
      lengths[row] = piece.data.lengths[within(row)] as number;
    }
    const read: ReadRecords = { kind: 'bytes', chunks: [...numbers.keys()], chunkOf, starts, lengths };
    return { item, records: read, origins };
  }

  #orderOf(epoch: number): EpochOrder {
    let order = this.#orders.get(epoch);
    if (order === undefined) {
      const { seed, lanes, pool } = this.#options.order;
      order = new EpochOrder({ blocks: this.#blocks, seed, epoch, lanes, pool });
      // Items of two epochs are in work at the same time at most.
      for (const old of this.#orders.keys()) if (old < epoch - 1 || old > epoch + 1) this.#orders.delete(old);
      this.#orders.set(epoch, order);
    }
    return order;
  }

  #fileOf(record: number): IndexedFile {
    const { files } = this.#options;
    // The last file that begins at or before it; files without records begin where the next one does.
    let [low, high] = [0, files.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((files[middle] as IndexedFile).first <= record) low = middle;
      else high = middle - 1;
    }
    return files[low] as IndexedFile;
  }

  #readerOf(file: IndexedFile): FileReader {
    // A read that was waiting when the iterator ended.
    if (this.#isClosed) throw endedError();
    let reader = this.#readers.get(file);
    if (reader === undefined) {
      const { source, open, allocate } = this.#options;
      reader = new FileReader(file, source as SourceFormat, open, allocate, this.#elementBlocks);
      this.#readers.set(file, reader);
    }
    return reader;
  }
}

function startOf({ piece, file }: Placed): number {
  return file.first + piece.first;
}

/** The piece that has this record, of pieces in the order of records. */
function pieceOf(sorted: readonly Placed[], record: number): Placed {
  let [low, high] = [0, sorted.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (startOf(sorted[middle] as Placed) <= record) low = middle;
    else high = middle - 1;
  }
  return sorted[low] as Placed;
}
