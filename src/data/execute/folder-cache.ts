// cache(folder): elements on disk, by the number of their record, so that later epochs and later jobs neither read nor compute them
// again. Every process appends to a *log* of its own and reads all logs of the folder, so ranks of one host (or of a shared file
// system) use each other's work. An entry of a log: number of the record (8 bytes), length and checksum of the value (4 each),
// checksum of these 16 bytes (4), all little endian; then the elements of that record as V8 writes values. A log that ends in the
// middle of an entry is being written, or its writer was killed: what is before counts.

import { randomUUID } from 'node:crypto';
import {
  closeSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  read as readFile,
  readSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { deserialize, serialize } from 'node:v8';
import { HorovodError } from '../../errors.ts';
import { localFileError } from '../../files/local.ts';
import { dataFileError } from '../formats/format.ts';
import type { RecordKernels } from '../formats/tfrecord/record-kernels.ts';
import type { Cached, ElementCache } from './iteration.ts';
import { byRow, type CacheStore, flattened, recordsOf } from './memory-cache.ts';
import type { Reader } from './reader.ts';
import type { Step } from './steps.ts';

const headerBytes = 20;
const ending = '.elements';
const readAsync = promisify(readFile);

interface Log {
  readonly path: string;
  readonly file: number;
  /** Entries before are known. */
  scanned: number;
}

/** Where the elements of a record are. */
interface Spot {
  readonly log: Log;
  readonly offset: number;
  readonly length: number;
  readonly checksum: number;
}

export class FolderCache implements CacheStore {
  readonly #folder: string;
  readonly #kernels: RecordKernels;

  /** `folder`: of this pipeline over these files, nothing else is in there. */
  constructor(folder: string, kernels: RecordKernels) {
    this.#folder = folder;
    this.#kernels = kernels;
  }

  open(reader: Reader): ElementCache & { close(): void } {
    return new OpenFolder(this.#folder, this.#kernels, reader);
  }
}

class OpenFolder implements ElementCache {
  readonly #folder: string;
  readonly #kernels: RecordKernels;
  readonly #reader: Reader;
  readonly #logs = new Map<string, Log>();
  readonly #spots = new Map<number, Spot>();
  #own: { readonly log: Log; end: number } | undefined;
  #epoch: number | undefined;
  #isClosed = false;
  #reads = 0;

  constructor(folder: string, kernels: RecordKernels, reader: Reader) {
    this.#folder = folder;
    this.#kernels = kernels;
    this.#reader = reader;
    attempt('create', folder, () => mkdirSync(folder, { recursive: true, mode: 0o700 }));
  }

  find(step: Step, isSync: boolean): Cached | Promise<Cached> | undefined {
    // Other ranks have written meanwhile.
    if (step.epoch !== this.#epoch) this.#refresh();
    this.#epoch = step.epoch;
    const spots: Spot[] = [];
    for (const record of recordsOf(step, this.#reader)) {
      const spot = this.#spots.get(record);
      if (spot === undefined) return undefined;
      spots.push(spot);
    }
    return isSync ? this.#readSync(spots) : this.#read(spots);
  }

  keep(step: Step, rows: readonly number[], values: readonly unknown[]): void {
    const records = recordsOf(step, this.#reader);
    const own = this.#ownLog();
    const parts: Uint8Array[] = [];
    let { end } = own;
    for (const [row, elements] of byRow(records.length, rows, values).entries()) {
      const record = records[row] as number;
      if (this.#spots.has(record)) continue;
      const bytes = serialize(elements);
      const checksum = this.#kernels.crc32c(bytes, 0, bytes.length);
      parts.push(headerOf(record, bytes.length, checksum, this.#kernels), bytes);
      this.#spots.set(record, { log: own.log, offset: end + headerBytes, length: bytes.length, checksum });
      end += headerBytes + bytes.length;
    }
    const { path, file } = own.log;
    const all = Buffer.concat(parts);
    attempt('write', path, () => {
      for (let done = 0; done < all.length; )
        done += writeSync(file, all, done, all.length - done, own.end + done);
    });
    own.end = end;
    own.log.scanned = end;
  }

  close(): void {
    this.#isClosed = true;
    this.#closeFiles();
  }

  /** Not while a read is on its way: the number of the file could belong to another one then. */
  #closeFiles(): void {
    if (!this.#isClosed || this.#reads > 0) return;
    for (const { file } of this.#logs.values()) closeSync(file);
    this.#logs.clear();
  }

  #ownLog(): { readonly log: Log; end: number } {
    if (this.#own !== undefined) return this.#own;
    const name = `${process.pid}-${randomUUID()}${ending}`;
    const path = join(this.#folder, name);
    const log = { path, file: attempt('create', path, () => openSync(path, 'wx+', 0o600)), scanned: 0 };
    this.#logs.set(name, log);
    this.#own = { log, end: 0 };
    return this.#own;
  }

  #refresh(): void {
    for (const name of attempt('list', this.#folder, () => readdirSync(this.#folder))) {
      if (!name.endsWith(ending)) continue;
      let log = this.#logs.get(name);
      if (log === undefined) {
        const path = join(this.#folder, name);
        log = { path, file: attempt('read', path, () => openSync(path, 'r')), scanned: 0 };
        this.#logs.set(name, log);
      }
      if (log !== this.#own?.log) this.#scan(log);
    }
  }

  #scan(log: Log): void {
    const size = fstatSync(log.file).size;
    const header = new Uint8Array(headerBytes);
    const view = new DataView(header.buffer);
    while (log.scanned + headerBytes <= size) {
      attempt('read', log.path, () => readSync(log.file, header, 0, headerBytes, log.scanned));
      if (view.getUint32(16, true) !== this.#kernels.crc32c(header, 0, 16)) return;
      const length = view.getUint32(8, true);
      const offset = log.scanned + headerBytes;
      if (offset + length > size) return;
      this.#spots.set(view.getFloat64(0, true), { log, offset, length, checksum: view.getUint32(12, true) });
      log.scanned = offset + length;
    }
  }

  #readSync(spots: readonly Spot[]): Cached {
    return flattened(
      spots.map((spot) => {
        const bytes = new Uint8Array(spot.length);
        const { path, file } = spot.log;
        const count = attempt('read', path, () => readSync(file, bytes, 0, bytes.length, spot.offset));
        return this.#valueOf(bytes.subarray(0, count), spot);
      }),
    );
  }

  /** Entries that follow each other are read at once. */
  async #read(spots: readonly Spot[]): Promise<Cached> {
    const lists: (readonly unknown[])[] = [];
    this.#reads += 1;
    try {
      await Promise.all(
        runsOf(spots).map(async ({ first, count }) => {
          const [from, to] = [spots[first] as Spot, spots[first + count - 1] as Spot];
          const bytes = new Uint8Array(to.offset + to.length - from.offset);
          const { path, file } = from.log;
          const { bytesRead } = await readAsync(file, bytes, 0, bytes.length, from.offset).catch(
            (error: unknown) => {
              throw localFileError('read', path, error);
            },
          );
          for (let place = first; place < first + count; place += 1) {
            const spot = spots[place] as Spot;
            const start = spot.offset - from.offset;
            const end = Math.min(start + spot.length, bytesRead);
            lists[place] = this.#valueOf(bytes.subarray(Math.min(start, end), end), spot);
          }
        }),
      );
    } finally {
      this.#reads -= 1;
      this.#closeFiles();
    }
    return flattened(lists);
  }

  #valueOf(bytes: Uint8Array, { log, length, checksum }: Spot): readonly unknown[] {
    const advice = 'Delete the folder; it is filled again.';
    if (bytes.length !== length || this.#kernels.crc32c(bytes, 0, bytes.length) !== checksum) {
      throw dataFileError(log.path, `cache(): an element is damaged: its checksum does not match. ${advice}`);
    }
    try {
      return deserialize(bytes) as unknown[];
    } catch (cause) {
      throw dataFileError(
        log.path,
        `cache(): an element was written by another version of Node.js. ${advice}`,
        cause,
      );
    }
  }
}

function runsOf(spots: readonly Spot[]): { first: number; count: number }[] {
  const runs: { first: number; count: number }[] = [];
  for (const [place, { log, offset }] of spots.entries()) {
    const before = spots[place - 1];
    const run = runs.at(-1);
    const follows = before?.log === log && offset === before.offset + before.length + headerBytes;
    if (run !== undefined && follows) run.count += 1;
    else runs.push({ first: place, count: 1 });
  }
  return runs;
}

function headerOf(record: number, length: number, checksum: number, kernels: RecordKernels): Uint8Array {
  const header = new Uint8Array(headerBytes);
  const view = new DataView(header.buffer);
  view.setFloat64(0, record, true);
  view.setUint32(8, length, true);
  view.setUint32(12, checksum, true);
  view.setUint32(16, kernels.crc32c(header, 0, 16), true);
  return header;
}

function attempt<T>(verb: string, path: string, action: () => T): T {
  try {
    return action();
  } catch (error) {
    throw HorovodError.is(error) ? error : localFileError(verb, path, error);
  }
}
