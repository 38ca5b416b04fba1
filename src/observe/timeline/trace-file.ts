// The file of a timeline: an array of events in Chrome's Trace Event Format. After every write it is valid JSON, since
// each one goes over the closing bracket and ends with a new one: who is killed leaves a whole file. It grows up to a
// limit; then it becomes `name.1.json`, in place of an older one of that name, and a new file begins.

import { closeSync, constants, fstatSync, ftruncateSync, openSync, renameSync, writeSync } from 'node:fs';
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
  /** Not a device such as /dev/null, which must stay where it is. */
  #canRotate = false;
  /** Where the ending is. */
  #end = 0;

  /**
   * Replaces what was there. `opening` gives the events that every file begins with. Throws what the system says if the
   * file cannot be written.
   */
  constructor(path: string, maxBytes: number, opening: () => readonly string[], write: Write = writeSync) {
    this.path = path;
    this.#maxBytes = maxBytes;
    this.#opening = opening;
    this.#write = write;
    this.#fd = this.#open();
  }

  /** Each event is the JSON of an object. After an error the file is as it was before. */
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

  #open(): number {
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
    return fd;
  }

  #put(text: string): void {
    const bytes = Buffer.from(text + ending);
    try {
      for (let done = 0; done < bytes.length; ) {
        // A short write is how a disk says that it is full; the next one throws.
        done += this.#write(this.#fd, bytes, done, bytes.length - done, this.#end + done);
      }
    } catch (error) {
      this.#restore();
      throw error;
    }
    this.#end += bytes.length - ending.length;
  }

  /** Back to the last whole state: what is cut off makes room for the ending. */
  #restore(): void {
    try {
      ftruncateSync(this.#fd, this.#end);
      const bytes = Buffer.from(this.#end === 0 ? '[\n]\n' : ending);
      writeSync(this.#fd, bytes, 0, bytes.length, this.#end);
    } catch {
      // A device, or a disk that has gone: there is nothing to save.
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
