// The collector of rank 0: reads the rings of all ranks and writes the file of the timeline. It runs in a separate thread
// (worker.ts) with the lowest priority.

import { existsSync } from 'node:fs';
import { type MemoryFile, openMemoryFile } from '../../control/memory-file.ts';
import { RecordReader } from './records.ts';
import { fileIn, RingReader, sessionOf } from './ring.ts';
import { RingFilter } from './ring-filter.ts';
import { collectingHere, publishedRing, ringHolders, setCollecting } from './ring-registry.ts';
import { openingEvent, RankEvents, type TraceOrigin } from './trace-events.ts';
import { TraceFile, type Write } from './trace-file.ts';

export interface CollectorOptions {
  readonly file: string;
  readonly maxBytes: number;
  /** The ring of this process's rank. */
  readonly ownRing: string;
  /** The control block of this host, and its number of ranks. Undefined if there are no other ranks. */
  readonly controlBlock?:
    | { readonly path: string; readonly ranks: number; readonly hasOtherHosts?: boolean }
    | undefined;
  readonly origin?: TraceOrigin | undefined;
  /** When the file was begun, in an earlier generation of an elastic job: it is continued. */
  readonly begun?: TraceBeginning | undefined;
  /** For tests. */
  readonly write?: Write;
}

/** When a file was begun: its times count from there. */
export interface TraceBeginning {
  /** Of the monotonic clock. */
  readonly startUs: number;
  readonly epochUs: number;
}

interface Source {
  readonly ring: RingReader;
  readonly reader: RecordReader;
  readonly events: RankEvents;
  dropped: number;
}

/** The maximum number of bytes of a ring to process at a time, which limits the memory. */
const pieceBytes = 256 * 1024;
/** New rings are searched for once in this many turns. */
const turnsPerSearch = 4;

export class Collector {
  readonly #options: CollectorOptions;
  readonly beginning: TraceBeginning;
  readonly #startUs: number;
  readonly #file: TraceFile;
  readonly #block: MemoryFile | undefined;
  readonly #sources = new Map<string, Source>();
  /** Metadata of closed rings, for the next file. */
  readonly #pastMetadata = new Map<string, readonly string[]>();
  readonly #torn = new Set<string>();
  readonly #session: number;
  readonly #filter = new RingFilter();
  #isFinishing = false;
  #turn = 0;
  #dropped = 0;

  /** Throws the error of the system if the file cannot be written. */
  constructor(options: CollectorOptions) {
    this.#options = options;
    this.#session = sessionOf(options.file);
    const { begun } = options;
    this.beginning = begun ?? {
      startUs: Number(process.hrtime.bigint()) / 1e3,
      epochUs: Date.now() * 1e3,
    };
    this.#startUs = this.beginning.startUs;
    const { epochUs } = this.beginning;
    this.#file = new TraceFile(
      options.file,
      options.maxBytes,
      () => [openingEvent(epochUs, options.origin), ...this.#metadata()],
      { write: options.write, continues: begun !== undefined },
    );
    const { controlBlock } = options;
    this.#block = controlBlock === undefined ? undefined : openMemoryFile(controlBlock.path);
    if (this.#block !== undefined) setCollecting(this.#block.fd, 'collector', this.#session);
    this.#find();
  }

  /** The number of events that ranks have dropped so far. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Asks other hosts for their remaining events; `isOver` waits for them, and for ranks whose ring was published a moment ago. */
  finish(): void {
    this.#isFinishing = true;
    this.#find();
    if (this.#block !== undefined && this.#options.controlBlock?.hasOtherHosts === true) {
      setCollecting(this.#block.fd, 'finishing');
    }
  }

  /** No ring will deliver more events. */
  get isOver(): boolean {
    if (this.#block !== undefined && collectingHere(this.#block.fd) === 'finishing') return false;
    // A process that has ended, and with it the file of its ring, writes no more.
    for (const [path, { ring }] of this.#sources) if (!ring.isOver && existsSync(fileIn(path))) return false;
    return true;
  }

  /** Reads available events. Returns whether there are more. */
  turn(): boolean {
    if (this.#turn++ % turnsPerSearch === 0) this.#find();
    let isMore = false;
    for (const [path, source] of this.#sources) {
      const bytes = source.ring.read(pieceBytes);
      isMore ||= bytes.length === pieceBytes;
      const events: string[] = [];
      try {
        source.reader.push(bytes, (type, words) => {
          source.events.convert(type, words, source.ring, events);
        });
      } catch {
        // The data of a ring of another host is damaged. The rest of it cannot be read.
        this.#file.append(events);
        this.#forget(path, source);
        this.#torn.add(path);
        continue;
      }
      const { dropped } = source.ring;
      if (dropped > source.dropped && source.events.hello !== undefined) {
        source.events.dropped(dropped - source.dropped, Number(process.hrtime.bigint()) / 1e3, events);
        this.#dropped += dropped - source.dropped;
        source.dropped = dropped;
      }
      this.#file.append(events);
      if (source.ring.isOver && !this.#isPublished(path)) this.#forget(path, source);
    }
    return isMore;
  }

  /** Reads the remaining events that are available, and closes the file. */
  close(): void {
    try {
      this.#find();
      while (this.turn());
    } finally {
      this.#end();
    }
  }

  /** Closes the file without reading more events. */
  abandon(): void {
    this.#end();
  }

  #end(): void {
    if (this.#block !== undefined) setCollecting(this.#block.fd, 'nobody');
    this.#block?.close();
    for (const { ring } of this.#sources.values()) ring.close();
    this.#sources.clear();
    this.#file.close();
  }

  #find(): void {
    const { ownRing, controlBlock } = this.#options;
    const paths = new Set([ownRing]);
    const holders =
      this.#block === undefined || controlBlock === undefined
        ? [process.pid]
        : ringHolders(this.#block.fd, controlBlock.ranks);
    if (this.#block !== undefined && controlBlock !== undefined) {
      for (let rank = 0; rank < controlBlock.ranks; rank++) {
        const path = publishedRing(this.#block.fd, rank);
        if (path !== '') paths.add(path);
      }
    }
    for (const path of paths) {
      if (this.#sources.has(path) || this.#torn.has(path)) continue;
      if (!this.#filter.accepts(path, this.#session, this.#isFinishing)) continue;
      const ring = RingReader.open(path, holders);
      if (ring === undefined) continue;
      const events = new RankEvents(this.#startUs);
      this.#sources.set(path, { ring, reader: new RecordReader(), events, dropped: ring.dropped });
    }
  }

  #isPublished(path: string): boolean {
    const { ownRing, controlBlock } = this.#options;
    if (path === ownRing || this.#block === undefined) return path === ownRing;
    for (let rank = 0; rank < (controlBlock?.ranks ?? 0); rank++) {
      if (publishedRing(this.#block.fd, rank) === path) return true;
    }
    return false;
  }

  #forget(path: string, source: Source): void {
    this.#pastMetadata.set(String(source.events.hello?.rank), source.events.metadata);
    source.ring.close();
    this.#sources.delete(path);
  }

  #metadata(): string[] {
    const live = [...this.#sources.values()].flatMap(({ events }) => events.metadata);
    return [...new Set([...[...this.#pastMetadata.values()].flat(), ...live])];
  }
}
