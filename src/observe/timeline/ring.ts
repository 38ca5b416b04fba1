// The ring of one rank: a memory file that carries its events to the collector of rank 0, or to the watch of its host. There is one
// writer and one reader, in different threads or processes. Both use only pread and pwrite, so no addon is needed, and neither
// ever waits for the other. If there is no room left, the writer drops its records and counts them.
//
// Layout: sixteen float64 (little-endian, as all machines this runs on), then `capacity` bytes of data, used in a circle.
//   0 magic   1 bytes written, ever   2 bytes read, ever   3 state (1 open, 2 closed)
//   4 microseconds to add to its times to get those of rank 0's host   5 capacity   6 records dropped
//   7 how many readers have opened it   8 a number that distinguishes it from other rings with the same path
//   9 how many microseconds 4 may be off; infinite if nobody has compared the clocks
// The writer writes 0, 1, 3, 5, 6, 8 and the data; the reader 2 and 7; a process that relays events of another host 4 and 9.
// A position is written after the data that it covers; each is one write of eight aligned bytes.

import { randomInt } from 'node:crypto';
import { fstatSync, readSync, writeSync } from 'node:fs';
import { basename } from 'node:path';
import { createMemoryFile, type MemoryFile, openMemoryFile } from '../../control/memory-file.ts';

const words = {
  magic: 0,
  written: 1,
  read: 2,
  state: 3,
  clockOffsetUs: 4,
  capacity: 5,
  dropped: 6,
  readers: 7,
  identity: 8,
  clockErrorUs: 9,
} as const;
const headerBytes = 128;
const magic = 0x314c5448;
const open = 1;
const closed = 2;

export const defaultRingBytes: number = 2 * 2 ** 20;

export interface RingOptions {
  /** A multiple of 8. */
  readonly capacity?: number;
  readonly directory?: string | undefined;
  /** Which timeline it belongs to, see sessionOf(). */
  readonly session?: number;
}

export class RingWriter {
  readonly #file: MemoryFile;
  readonly #capacity: number;
  readonly #identity: number;
  readonly #session: number;
  readonly #word = new Float64Array(1);
  #written = 0;
  #read = 0;
  #dropped = 0;

  constructor({ capacity = defaultRingBytes, directory, session = 0 }: RingOptions = {}) {
    this.#session = session;
    this.#file = createMemoryFile(headerBytes + capacity, { directory, label: 'timeline' });
    this.#capacity = capacity;
    this.#identity = randomInt(2 ** 40);
    this.#set(words.identity, this.#identity);
    this.#set(words.capacity, capacity);
    this.#set(words.state, open);
    this.#set(words.magic, magic);
  }

  /** For RingReader.open(), in any process of this user on this host. More than a path, because descriptors are reused. */
  get path(): string {
    return `${this.#file.path} ${this.#identity} ${this.#session}`;
  }

  get dropped(): number {
    return this.#dropped;
  }

  /** Grows with each new reader, which has not seen the earlier records. */
  get readers(): number {
    return wordOf(this.#file.fd, words.readers, this.#word);
  }

  /** True once everything written has been read. */
  get isDrained(): boolean {
    return this.#readPosition() >= this.#written;
  }

  /** Returns false if there was no room and `records` were dropped. */
  write(bytes: Uint8Array, records: number): boolean {
    if (bytes.length === 0) return true;
    if (this.#written + bytes.length - this.#read > this.#capacity) this.#read = this.#readPosition();
    if (this.#written + bytes.length - this.#read > this.#capacity) {
      this.#dropped += records;
      this.#set(words.dropped, this.#dropped);
      return false;
    }
    const at = this.#written % this.#capacity;
    const first = Math.min(bytes.length, this.#capacity - at);
    writeSync(this.#file.fd, bytes, 0, first, headerBytes + at);
    if (first < bytes.length) writeSync(this.#file.fd, bytes, first, bytes.length - first, headerBytes);
    this.#written += bytes.length;
    this.#set(words.written, this.#written);
    return true;
  }

  /** For a process that relays the ring of another rank. */
  setDropped(records: number): void {
    if (records === this.#dropped) return;
    this.#dropped = records;
    this.#set(words.dropped, records);
  }

  setClock(offsetUs: number, errorUs: number): void {
    this.#set(words.clockOffsetUs, offsetUs);
    this.#set(words.clockErrorUs, errorUs);
  }

  /** Marks the end of the events. The file stays for the reader. */
  end(): void {
    this.#set(words.state, closed);
  }

  close(): void {
    this.#file.close();
  }

  #readPosition(): number {
    return wordOf(this.#file.fd, words.read, this.#word);
  }

  #set(place: number, value: number): void {
    this.#word[0] = value;
    writeSync(this.#file.fd, this.#word, 0, 8, place * 8);
  }
}

export class RingReader {
  readonly path: string;
  readonly #file: MemoryFile;
  readonly #header = new Float64Array(headerBytes / 8);
  readonly #capacity: number;
  #position: number;

  private constructor(path: string, file: MemoryFile, header: Float64Array) {
    this.path = path;
    this.#file = file;
    this.#header.set(header);
    this.#capacity = header[words.capacity] as number;
    this.#position = header[words.read] as number;
  }

  /** Undefined if the file is not a ring, or no longer one. `pids`: the processes that may hold it. */
  static open(path: string, pids: readonly number[]): RingReader | undefined {
    let file: MemoryFile;
    try {
      file = openMemoryFile(partsOf(path).file, { pids });
    } catch {
      return undefined;
    }
    const header = new Float64Array(headerBytes / 8);
    try {
      readSync(file.fd, header, 0, headerBytes, 0);
    } catch {
      // a directory, a socket …
    }
    const isWhole = fstatSync(file.fd).size === headerBytes + (header[words.capacity] as number);
    const isRing = header[words.magic] === magic && header[words.identity] === partsOf(path).identity;
    if (!isRing || !isWhole) {
      file.close();
      return undefined;
    }
    const readers = new Float64Array([(header[words.readers] as number) + 1]);
    writeSync(file.fd, readers, 0, 8, words.readers * 8);
    return new RingReader(path, file, header);
  }

  /** As of the last read(). */
  get dropped(): number {
    return this.#header[words.dropped] as number;
  }

  get clockOffsetUs(): number {
    return this.#header[words.clockOffsetUs] as number;
  }

  get clockErrorUs(): number {
    return this.#header[words.clockErrorUs] as number;
  }

  /** Whether the writer has closed it and everything was read. */
  get isOver(): boolean {
    return (this.#header[words.state] as number) === closed && this.#position === this.#header[words.written];
  }

  /** The next bytes, at most `most`; empty if there are none. They make whole records together with what comes later. */
  read(most: number): Uint8Array {
    const header = this.#header;
    readSync(this.#file.fd, header, 0, headerBytes, 0);
    const available = (header[words.written] as number) - this.#position;
    const bytes = Math.max(0, Math.min(available, most));
    const into = new Uint8Array(bytes);
    if (bytes === 0) return into;
    const at = this.#position % this.#capacity;
    const first = Math.min(bytes, this.#capacity - at);
    readSync(this.#file.fd, into, 0, first, headerBytes + at);
    if (first < bytes) readSync(this.#file.fd, into, first, bytes - first, headerBytes);
    this.#position += bytes;
    const word = new Float64Array([this.#position]);
    writeSync(this.#file.fd, word, 0, 8, words.read * 8);
    return into;
  }

  close(): void {
    this.#file.close();
  }
}

function wordOf(fd: number, place: number, into: Float64Array): number {
  readSync(fd, into, 0, 8, place * 8);
  return into[0] as number;
}

/** The file of a ring, by its path. */
export function fileIn(path: string): string {
  return partsOf(path).file;
}

/** The session of a ring, by its path. */
export function sessionIn(path: string): number {
  return partsOf(path).session;
}

/**
 * A number for the timeline that is written to this file. Ranks start and stop at slightly different times, and events of a
 * timeline must not end up in the file of the previous one.
 */
export function sessionOf(file: string): number {
  let hash = 7;
  for (const letter of basename(file)) hash = (hash * 31 + (letter.codePointAt(0) ?? 0)) % 0x7fffffff;
  return hash;
}

function partsOf(path: string): { file: string; identity: number; session: number } {
  const [, file = '', identity = '', session = ''] = /^(.*) (\d+) (\d+)$/.exec(path) ?? [];
  return { file, identity: Number(identity), session: Number(session) };
}
