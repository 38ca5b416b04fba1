// Reads parts of a source whose records nobody has counted: files without an index, and parts of moduleDataset(). Each is read from
// its beginning to its end by one cursor; runs of a part follow each other. A place in the middle is reached by skipping.

import type { ReadHandle } from '../../files/file-system.ts';
import type { ByteFormat, ElementRecord } from '../formats/format.ts';
import { itemOf, laneOf } from '../order/lanes.ts';
import {
  type AllocateChunk,
  endedError,
  type IndexedFile,
  type OpenPart,
  openChecked,
  type PartPlace,
  type Placed,
  type SourceFormat,
  StreamCursor,
  type Taken,
} from './pieces.ts';
import type { WorkItem } from './work.ts';

export interface PartReaderOptions {
  readonly source: SourceFormat;
  readonly files: readonly IndexedFile[];
  readonly open: (file: IndexedFile) => Promise<ReadHandle>;
  readonly allocate: AllocateChunk;
  readonly seed: number;
}

/** The records of an item: fewer than it asks for if the part has ended. */
export interface ReadPart {
  readonly placed: Placed[];
  /** Number of the first one in its part. */
  readonly first: number;
  readonly count: number;
  /** Where damaged records are that were left out. */
  readonly damaged: readonly number[];
  readonly isEnd: boolean;
}

interface PartCursor {
  take(first: number, count: number): Promise<Taken>;
  close(): Promise<void>;
}

export class PartReader {
  readonly #options: PartReaderOptions;
  /** By epoch and part; undefined once the part has ended. */
  readonly #cursors = new Map<string, Promise<PartCursor> | undefined>();
  #isClosed = false;

  constructor(options: PartReaderOptions) {
    this.#options = options;
  }

  async read({ epoch, positions }: WorkItem): Promise<ReadPart> {
    if (this.#isClosed) throw endedError();
    const { files } = this.#options;
    const lanes = { count: files.length, length: 0 };
    const [part, first] = [laneOf(positions[0] as number, lanes), itemOf(positions[0] as number, lanes)];
    const file = files[part] as IndexedFile;
    const key = `${epoch} ${part}`;
    // Runs behind the end of a part, which were asked for before the end was seen.
    if (this.#cursors.has(key) && this.#cursors.get(key) === undefined) return empty(first);
    const opening = this.#cursors.get(key) ?? this.#open(part, epoch, first);
    this.#cursors.set(key, opening);
    const cursor = await opening;
    const { pieces, isEnd, damaged } = await cursor.take(first, positions.length);
    if (isEnd && this.#cursors.get(key) !== undefined) {
      this.#cursors.set(key, undefined);
      await cursor.close();
    }
    const count = pieces.reduce((sum, piece) => sum + piece.count, 0);
    return { placed: pieces.map((piece) => ({ piece, file })), first, count, damaged, isEnd };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const open = [...this.#cursors.values()];
    this.#cursors.clear();
    for (const cursor of open) await (await cursor?.catch(() => undefined))?.close();
  }

  #open(part: number, epoch: number, first: number): Promise<PartCursor> {
    const { source, files, open, allocate, seed } = this.#options;
    // Items of two epochs are in work at the same time at most.
    for (const key of this.#cursors.keys())
      if (Number.parseInt(key, 10) < epoch - 1) this.#cursors.delete(key);
    const file = files[part] as IndexedFile;
    if (source.kind === 'parts') {
      return ElementCursor.start(source.open, { part, parts: files.length, epoch, seed }, first);
    }
    if (source.kind === 'elements') throw new Error(`${file.location} has an index`);
    return startBytes(file, open, source.format, first, allocate);
  }
}

function empty(first: number): ReadPart {
  return { placed: [], first, count: 0, damaged: [], isEnd: true };
}

async function startBytes(
  file: IndexedFile,
  open: PartReaderOptions['open'],
  format: ByteFormat,
  first: number,
  allocate: AllocateChunk,
): Promise<PartCursor> {
  const handle = await openChecked(file, open);
  const read = (target: Uint8Array, position: number) => handle.read(target, position);
  const source = { location: file.location, size: handle.size, read };
  const cursor = new StreamCursor((reused) => format.stream(source, { skip: first, allocate: reused }));
  return {
    take: (from, count) => cursor.take(from, count, allocate),
    async close() {
      await cursor.close();
      await handle.close();
    },
  };
}

/** A place in the elements of a part. */
class ElementCursor implements PartCursor {
  readonly #elements: AsyncIterator<unknown> | Iterator<unknown>;
  #last: Promise<unknown> = Promise.resolve();
  #isOver = false;

  static async start(open: OpenPart, place: PartPlace, first: number): Promise<ElementCursor> {
    const cursor = new ElementCursor(await open(place));
    for (let skipped = 0; skipped < first; skipped += 1) await cursor.#next();
    return cursor;
  }

  private constructor(elements: AsyncIterator<unknown> | Iterator<unknown>) {
    this.#elements = elements;
  }

  take(first: number, count: number): Promise<Taken> {
    const taking = this.#last.then(() => this.#take(first, count));
    this.#last = taking.catch(() => {});
    return taking;
  }

  async close(): Promise<void> {
    this.#isOver = true;
    await this.#elements.return?.();
  }

  async #take(first: number, count: number): Promise<Taken> {
    const elements: ElementRecord[] = [];
    while (elements.length < count) {
      const turn = await this.#next();
      if (turn === undefined) break;
      elements.push(turn.value as ElementRecord);
    }
    const data = { kind: 'elements', elements } as const;
    const pieces = elements.length === 0 ? [] : [{ first, count: elements.length, bytes: 0, data }];
    return { pieces, isEnd: elements.length < count, damaged: [] };
  }

  async #next(): Promise<{ value: unknown } | undefined> {
    if (this.#isOver) return undefined;
    const turn = await this.#elements.next();
    this.#isOver = turn.done === true;
    return this.#isOver ? undefined : { value: turn.value };
  }
}
