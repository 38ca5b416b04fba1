// The logs of a job that this process has not started: the files of horovodrun --output-filename, read as they grow.

import { closeSync, fstatSync, openSync, readdirSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { HorovodError } from '../../errors.ts';
import { LineReader, type OutputLine } from '../../launch/output/line-reader.ts';

const lookMs = 500;
/** Of a file that is there already, the end is read. */
const firstBytes = 256 * 1024;
/** Of one file, at one look; more comes at the next. */
const bytesAtOnce = 1024 * 1024;

interface Tail {
  readonly fd: number;
  readonly rank: number;
  readonly stream: OutputLine['stream'];
  readonly reader: LineReader;
  position: number;
  /** It begins in the middle of a line. */
  isCut: boolean;
}

export class OutputTails {
  readonly #directory: string;
  readonly #onLine: (line: OutputLine) => void;
  readonly #tails = new Map<string, Tail>();
  readonly #timer: NodeJS.Timeout;

  /** Throws ERR_HVD_SETTING if there is no such folder. */
  constructor(directory: string, onLine: (line: OutputLine) => void) {
    this.#directory = directory;
    this.#onLine = onLine;
    this.look();
    this.#timer = setInterval(() => this.#lookAgain(), lookMs).unref();
  }

  /** Reads what is new. */
  look(): void {
    for (const name of this.#folders()) {
      const rank = Number(/^(?:rank|worker)\.(\d+)$/.exec(name)?.[1] ?? Number.NaN);
      if (Number.isNaN(rank)) continue;
      for (const stream of ['stdout', 'stderr'] as const) this.#read(join(name, stream), rank, stream);
    }
  }

  /** After a last look. */
  close(): void {
    clearInterval(this.#timer);
    this.#lookAgain();
    for (const tail of this.#tails.values()) {
      for (const line of tail.reader.flush()) this.#tell(tail, line);
      closeSync(tail.fd);
    }
    this.#tails.clear();
  }

  #lookAgain(): void {
    try {
      this.look();
    } catch {
      // The folder was removed: there is nothing new.
    }
  }

  #folders(): string[] {
    try {
      return readdirSync(this.#directory);
    } catch (error) {
      const why =
        (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'there is no such folder' : String(error);
      throw new HorovodError('ERR_HVD_SETTING', `--output-dir ${this.#directory}: ${why}.`, { cause: error });
    }
  }

  #read(name: string, rank: number, stream: OutputLine['stream']): void {
    const tail = this.#tails.get(name) ?? this.#open(name, rank, stream);
    if (tail === undefined) return;
    const bytes = Buffer.alloc(Math.min(bytesAtOnce, Math.max(fstatSync(tail.fd).size - tail.position, 0)));
    if (bytes.length === 0) return;
    const length = readSync(tail.fd, bytes, 0, bytes.length, tail.position);
    tail.position += length;
    const lines = tail.reader.push(bytes.subarray(0, length));
    if (tail.isCut && lines.length > 0) {
      tail.isCut = false;
      lines.shift();
    }
    for (const line of lines) this.#tell(tail, line);
  }

  #open(name: string, rank: number, stream: OutputLine['stream']): Tail | undefined {
    let fd: number;
    try {
      fd = openSync(join(this.#directory, name), 'r');
    } catch {
      return undefined; // Not there yet.
    }
    const position = Math.max(fstatSync(fd).size - firstBytes, 0);
    const tail = { fd, rank, stream, reader: new LineReader(), position, isCut: position > 0 };
    this.#tails.set(name, tail);
    return tail;
  }

  #tell({ rank, stream }: Tail, line: string): void {
    // The page shows rank and stream by itself. Of an elastic job, the prefix has the rank, and the folder the worker.
    const prefix = /^(?:\w{3} \w{3} \d\d \S+ \d+ )?\[(\d+)\]<(?:stdout|stderr)>:/.exec(line);
    const text = prefix === null ? line : line.slice(prefix[0].length);
    this.#onLine({ rank: prefix === null ? rank : Number(prefix[1]), stream, text });
  }
}
