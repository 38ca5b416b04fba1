// The file of a timeline: an array of events in Chrome's Trace Event Format. Each write overwrites the closing bracket and ends with
// a new one, so the file is always valid JSON, even if the process is killed. When the file reaches its size limit, it is renamed
// to `name.1.json`, replacing an older file of that name, and a new file begins. A file can be continued after it was closed.

import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  renameSync,
  writeSync,
} from 'node:fs';
import { parse } from 'node:path';

const ending = '\n]\n';

/** For tests of full disks. */
export type Write = (fd: number, bytes: Uint8Array, from: number, length: number, position: number) => number;

export class TraceFile {
  readonly path: string;
  readonly #maxBytes: number;
  readonly #opening: () => readonly string[];
  readonly #write: Write;
  #fd: number;
  /** False for a device such as /dev/null, which must not be renamed. */
  #canRotate = false;
  /** The position of the closing bracket. */
  #end = 0;

  /**
   * Replaces an existing file, or continues it if `continues` and it is one of ours. `opening` returns the events at the
   * beginning of each file. Throws the error of the system if the file cannot be written.
   */
  constructor(
    path: string,
    maxBytes: number,
    opening: () => readonly string[],
    { write = writeSync, continues = false }: { write?: Write | undefined; continues?: boolean } = {},
  ) {
    this.path = path;
    this.#maxBytes = maxBytes;
    this.#opening = opening;
    this.#write = write;
    this.#fd = -1;
    if (!continues || !this.#continue()) this.#open();
  }

  /** Each event is the JSON of an object. If a write fails, the file stays as it was before. */
  append(events: readonly string[]): void {
    if (events.length === 0) return;
    const text = `,\n${events.join(',\n')}`;
    this.#put(text);
    if (this.#end > this.#maxBytes && this.#canRotate) this.#rotate();
  }

  close(): void {
    if (this.#fd >= 0) closeSync(this.#fd);
    this.#fd = -1;
  }

  /** False if there is no such file, or it has another end. */
  #continue(): boolean {
    let fd: number;
    try {
      fd = openSync(this.path, constants.O_RDWR);
    } catch {
      return false;
    }
    const { size } = fstatSync(fd);
    const end = Buffer.alloc(ending.length);
    const isOurs =
      fstatSync(fd).isFile() &&
      readSync(fd, end, 0, end.length, Math.max(size - end.length, 0)) === end.length &&
      end.toString() === ending;
    if (!isOurs) {
      closeSync(fd);
      return false;
    }
    this.#fd = fd;
    this.#canRotate = true;
    this.#end = size - ending.length;
    return true;
  }

  #open(): void {
    const fd = openSync(this.path, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC, 0o644);
    this.#fd = fd;
    this.#canRotate = fstatSync(fd).isFile();
    this.#end = 0;
    try {
      this.#put(`[\n${this.#opening().join(',\n')}`);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  #put(text: string): void {
    const bytes = Buffer.from(text + ending);
    try {
      for (let done = 0; done < bytes.length; ) {
        // After a short write the disk is full, and the next write throws.
        done += this.#write(this.#fd, bytes, done, bytes.length - done, this.#end + done);
      }
    } catch (error) {
      this.#restore();
      throw error;
    }
    this.#end += bytes.length - ending.length;
  }

  /** Restores the last valid state. Truncating the file makes room for the closing bracket. */
  #restore(): void {
    try {
      ftruncateSync(this.#fd, this.#end);
      const bytes = Buffer.from(this.#end === 0 ? '[\n]\n' : ending);
      writeSync(this.#fd, bytes, 0, bytes.length, this.#end);
    } catch {
      // A device, or a disk that is gone. Nothing can be saved.
    }
  }

  #rotate(): void {
    this.close();
    renameSync(this.path, rotatedName(this.path));
    this.#open();
  }
}

/** Where a full file goes: trace.json → trace.1.json. */
export function rotatedName(path: string): string {
  const { dir, name, ext } = parse(path);
  return `${dir === '' ? '' : dir === '/' ? '/' : `${dir}/`}${name}.1${ext}`;
}
