// The reader: from the positions of an item to its records in memory. With a shuffle pool it reads whole stretches, and keeps
// each until its last record has been used; otherwise it reads the runs that an item needs. It runs in a thread of its own, or in
// the main thread.

import type { ReadHandle } from '../../files/file-system.ts';
import type { ElementRecord } from '../formats/format.ts';
import { type Block, blocksOf } from '../order/blocks.ts';
import { laneOf } from '../order/lanes.ts';
import { EpochOrder } from '../order/stretches.ts';
import { unpackStage } from './advice.ts';
import { ReaderTimes } from './busy-times.ts';
import { ElementBlocks } from './element-blocks.ts';
import { PartReader } from './part-reader.ts';
import {
  type AllocateChunk,
  endedError,
  FileReader,
  type IndexedFile,
  type Placed,
  type SourceFormat,
} from './pieces.ts';
import { type DamagedRecord, noOrigins, type ReadItem, type WorkItem } from './work.ts';

/** What the order depends on; plain data, so that threads can be given it. */
export interface ReadOrder {
  readonly seed: number;
  readonly lanes: number;
  readonly pool: number | 'all' | undefined;
  /** Records that exist for the pipeline. */
  readonly records: { readonly skip: number; readonly take: number };
  /** Positions before the first one. */
  readonly skip: number;
  /** Records are not counted: parts are read from their beginnings. */
  readonly isStreamed?: boolean;
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
  readonly #parts: PartReader | undefined;
  readonly #times: ReaderTimes;
  /** Requests that handles had to repeat, those of items before not counted. */
  #retries = 0;
  /** Found since the last item, in files that are read from their beginning. */
  #damaged: DamagedRecord[] = [];
  /** By file; a file may be read by several cursors. */
  readonly #knownDamage = new Map<string, Set<number>>();
  #reading = 0;
  #isClosed = false;
  readonly #queue: (() => void)[] = [];

  constructor(options: ReaderOptions) {
    this.#options = options;
    this.#blocks = blocksOfOrder(options.files, options.order);
    this.#elementBlocks = new ElementBlocks(options.memoryBytes);
    const { source, files, allocate, order } = options;
    this.#times = new ReaderTimes(source?.kind === 'parts' ? 'moduleDataset' : unpackStage);
    const open = (file: IndexedFile) => this.#opened(file);
    if (order.isStreamed && source !== undefined) {
      this.#parts = new PartReader({ source, files, open, allocate, seed: order.seed });
    }
  }

  read(item: WorkItem): ReadItem | Promise<ReadItem> {
    if (this.#options.source === undefined) return this.#read(item);
    return this.#timed(item);
  }

  async #timed(item: WorkItem): Promise<ReadItem> {
    this.#times.items.enter();
    try {
      return await this.#read(item);
    } finally {
      this.#times.items.leave();
    }
  }

  #read(item: WorkItem): ReadItem | Promise<ReadItem> {
    if (this.#parts !== undefined) return this.#readPart(item, this.#parts);
    const order = this.#orderOf(item.epoch);
    const { skip, stride } = this.#options.order;
    const real = (record: number) => (stride === undefined ? record : record * stride.step + stride.first);
    const isPooled = typeof this.#options.order.pool === 'number' && this.#options.source !== undefined;
    const { positions } = item;
    const records = new Float64Array(positions.length);
    if (isPooled) {
      const places = positions.map((position) => order.at(position + skip));
      for (const [row, { record }] of places.entries()) records[row] = real(record);
      return this.#readStretches(item, order, records, places);
    }
    for (let row = 0; row < records.length; row += 1) {
      records[row] = real(order.recordAt((positions[row] as number) + skip));
    }
    if (this.#options.source !== undefined) return this.#readRuns(item, records);
    return { item, records: { kind: 'rows', rows: records }, origins: noOrigins };
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
    const { skip, stride } = this.#options.order;
    const record = this.#orderOf(epoch).recordAt(position + skip);
    return stride === undefined ? record : record * stride.step + stride.first;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#kept.clear();
    await this.#parts?.close();
    for (const reader of this.#readers.values()) await reader.close();
    this.#readers.clear();
  }

  async #readPart(item: WorkItem, parts: PartReader): Promise<ReadItem> {
    const taking = parts.read(item);
    const pieces = taking.then(({ placed }) => placed);
    pieces.catch(() => {});
    this.#inUse.set(item.number, [{ pieces, unused: 0, users: 1, bytes: 0, isForgotten: true }]);
    const { placed, first, count, damaged, isEnd } = await taking;
    const found = { ...item, positions: item.positions.slice(0, count) };
    const records = Float64Array.from({ length: count }, (_, row) => first + row);
    if (damaged.length > 0) this.#foundDamage(this.#partOf(item), damaged);
    return { ...this.#itemOf(found, records, placed), isEnd };
  }

  async #readRuns(item: WorkItem, records: Float64Array): Promise<ReadItem> {
    const sorted = isGrowing(records) ? records : Float64Array.from(records).sort();
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
    records: Float64Array,
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

  #itemOf(item: WorkItem, records: Float64Array, placed: readonly Placed[]): ReadItem {
    const sorted = placed.length === 1 ? placed : [...placed].sort((a, b) => startOf(a) - startOf(b));
    const count = records.length;
    const numbers = new Map<unknown, number>();
    const urls: string[] = [];
    const origins = { urls, urlOf: new Uint32Array(count), records: new Float64Array(count) };
    const chunks: Uint8Array[] = [];
    const chunkOf = new Uint32Array(count);
    const starts = new Uint32Array(count);
    const lengths = new Int32Array(count);
    const elements: (ElementRecord | undefined)[] = [];
    const damagedRows: DamagedRecord[] = [];
    let found = sorted[0] as Placed;
    let [low, high] = [0, 0];
    let [chunk, url] = [0, 0];
    for (let row = 0; row < count; row += 1) {
      const record = records[row] as number;
      // Neighbours are mostly in the same piece.
      if (record < low || record >= high) {
        found = pieceOf(sorted, record);
        [low, high] = [startOf(found), startOf(found) + found.piece.count];
        url = numberOf(numbers, found.file, urls, found.file.location);
        const { data } = found.piece;
        if (data.kind === 'bytes') chunk = numberOf(numbers, data.chunk, chunks, data.chunk);
      }
      const { piece, file } = found;
      const inFile = record - file.first;
      const image = file.images?.[inFile];
      origins.urlOf[row] = image === undefined ? url : numberOf(numbers, image, urls, image.location);
      origins.records[row] = image === undefined ? inFile : -1;
      const within = inFile - piece.first;
      if (piece.data.kind === 'elements') {
        elements[row] = piece.data.elements[within];
        continue;
      }
      chunkOf[row] = chunk;
      starts[row] = piece.data.starts[within] as number;
      lengths[row] = piece.data.lengths[within] as number;
      if ((lengths[row] as number) < 0) {
        damagedRows.push({ url: file.location, record: inFile, byte: file.offsets?.[inFile] ?? 0 });
      }
    }
    const [busy, retries] = [this.#times.take(), this.#retries];
    this.#retries = 0;
    const before = this.#damaged;
    this.#damaged = [];
    const damage =
      before.length + damagedRows.length > 0
        ? { damaged: before.length, damagedAt: [...before, ...damagedRows] }
        : {};
    const about = { item, origins, busy, retries, ...damage };
    if (this.#options.source?.kind !== 'bytes') return { ...about, records: { kind: 'elements', elements } };
    return { ...about, records: { kind: 'bytes', chunks, chunkOf, starts, lengths } };
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

  /** A handle whose reads are timed. */
  async #opened(file: IndexedFile): Promise<ReadHandle> {
    const { reads } = this.#times;
    reads.enter();
    const handle = await this.#options.open(file).finally(() => reads.leave());
    let known = 0;
    const read: ReadHandle['read'] = async (target, position, options) => {
      reads.enter();
      try {
        return await handle.read(target, position, options);
      } finally {
        reads.leave();
        const { retries = 0 } = handle;
        this.#retries += retries - known;
        known = retries;
      }
    };
    const close = () => handle.close();
    const { location, size, isSequential } = handle;
    return { location, size, isSequential, read, close, [Symbol.asyncDispose]: close };
  }

  #partOf({ positions }: WorkItem): IndexedFile {
    const { files } = this.#options;
    const lanes = { count: files.length, length: 0 };
    return files[laneOf(positions[0] as number, lanes)] as IndexedFile;
  }

  #foundDamage({ location }: IndexedFile, bytes: readonly number[]): void {
    const known = this.#knownDamage.get(location) ?? new Set();
    this.#knownDamage.set(location, known);
    for (const byte of bytes) {
      if (known.has(byte)) continue;
      known.add(byte);
      this.#damaged.push({ url: location, record: null, byte });
    }
  }

  #readerOf(file: IndexedFile): FileReader {
    // A read that was waiting when the iterator ended.
    if (this.#isClosed) throw endedError();
    let reader = this.#readers.get(file);
    if (reader === undefined) {
      const { source, allocate } = this.#options;
      const open = (each: IndexedFile) => this.#opened(each);
      const onDamaged = (each: IndexedFile, bytes: readonly number[]) => this.#foundDamage(each, bytes);
      reader = new FileReader(file, source as SourceFormat, open, allocate, this.#elementBlocks, onDamaged);
      this.#readers.set(file, reader);
    }
    return reader;
  }
}

/** The place of a value in a list; it is added if it is not there. */
function numberOf<T>(numbers: Map<unknown, number>, key: unknown, list: T[], value: T): number {
  let number = numbers.get(key);
  if (number === undefined) {
    number = list.push(value) - 1;
    numbers.set(key, number);
  }
  return number;
}

function isGrowing(records: Float64Array): boolean {
  for (let row = 1; row < records.length; row += 1) {
    if ((records[row] as number) < (records[row - 1] as number)) return false;
  }
  return true;
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
