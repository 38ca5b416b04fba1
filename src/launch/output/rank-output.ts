// Passes one output stream of one rank on to the console and, on request, to a file. It keeps the last lines for the
// failure report.

import { createWriteStream, mkdirSync, type WriteStream } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { HorovodError } from '../../errors.ts';
import { ConsoleWriter } from './console-writer.ts';
import { LineReader, type OutputLine } from './line-reader.ts';
import { LinePrefixer, linePrefix } from './prefix-lines.ts';
import { TerminalWriter, withoutBars } from './terminal-writer.ts';
import { type UncaughtError, UncaughtErrorFilter, type UncaughtErrors } from './uncaught-errors.ts';

export interface RankOutputOptions {
  readonly rank: number;
  /** The rank of the moment, for the prefix. Default: `rank`. */
  readonly shownRank?: (() => number) | undefined;
  /** Of an elastic job: files are in worker.<worker>. */
  readonly worker?: number | undefined;
  readonly name: 'stdout' | 'stderr';
  readonly prefix: 'none' | 'rank' | 'rank and time';
  /** Of --output-filename: rank.<rank>/stdout below it. */
  readonly directory?: string | undefined;
  /** The number of ranks; directory names are padded to sort well. */
  readonly size: number;
  /** Reports that a file cannot be written. */
  readonly notice: (text: string) => void;
  /** Of stderr: the console shows each uncaught error once for all ranks. */
  readonly errors?: UncaughtErrors | undefined;
  /** Gets each line. */
  readonly onLine?: ((line: OutputLine) => void) | undefined;
}

const tailBytes = 4096;
const tailLines = 12;
/** How long lines wait that may belong to an uncaught error; Node prints it at once. */
const heldMs = 300;

export class RankOutput {
  /** Settles when the stream has ended and all of it is written. */
  readonly finished: Promise<void>;
  readonly #source: Readable;
  readonly #filter: UncaughtErrorFilter | undefined;
  #tail: Buffer = Buffer.alloc(0);
  #isWriting = false;
  #quietTurns = 0;

  constructor(source: Readable, target: ConsoleWriter, options: RankOutputOptions) {
    this.#source = source;
    const { rank, errors } = options;
    this.#filter = errors === undefined ? undefined : new UncaughtErrorFilter(rank, errors);
    this.finished = this.#carry(target, openOutputFile(options), options);
  }

  /** The error that ended the rank, if Node has printed one. */
  get uncaught(): UncaughtError | undefined {
    return this.#filter?.found;
  }

  /** The last lines as the rank wrote them. If they contain an error with a long stack, they start at that error. */
  get tail(): string[] {
    const text = this.#tail.toString('utf8').trimEnd();
    const lines = text
      .split(/\r?\n|\r/)
      .slice(this.#tail.length === tailBytes ? 1 : 0)
      .filter((line) => line !== '');
    const error = lines.findLastIndex((line) => /^(Uncaught )?\w*Error( \[\w+\])?: /.test(line));
    const last = lines.length - tailLines;
    return error >= 0 && error < last ? lines.slice(error, error + tailLines) : lines.slice(-tailLines);
  }

  /**
   * The rank has ended. Its stream ends too, unless a process that left the rank's group keeps it open; the stream is
   * closed when that process has been silent for a while.
   */
  async finishWithin(quietMs: number): Promise<void> {
    // Counted in turns of the event loop and not by the clock: a launcher that was stopped or starved for longer than
    // `quietMs` has to read what is in the pipe first.
    const turns = 5;
    this.#quietTurns = 0;
    const watch = setInterval(() => {
      this.#quietTurns = this.#isWriting ? 0 : this.#quietTurns + 1;
      if (this.#quietTurns > turns) this.#source.destroy();
    }, quietMs / turns);
    await this.finished;
    clearInterval(watch);
  }

  async #carry(
    target: ConsoleWriter,
    file: OutputFile | undefined,
    options: RankOutputOptions,
  ): Promise<void> {
    const { rank, name, prefix, shownRank = () => rank, onLine } = options;
    const prefixed = () =>
      new LinePrefixer(() => {
        if (prefix === 'none') return '';
        return linePrefix(shownRank(), name, prefix === 'rank and time' ? new Date() : undefined);
      });
    const [shown, filed] = [prefixed(), prefixed()];
    const filter = this.#filter;
    const reader = onLine && new LineReader();
    const tell = (lines: readonly string[] = []) => {
      for (const text of lines) onLine?.({ rank: shownRank(), stream: name, text });
    };
    const write = async (console: Buffer, all: Buffer) => {
      this.#isWriting = true;
      const kept = target instanceof TerminalWriter ? withoutBars(all) : all;
      await Promise.all([target.write(console), file?.write(kept)]);
      this.#isWriting = false;
      this.#quietTurns = 0;
    };
    const nothing = Buffer.alloc(0);
    let release: NodeJS.Timeout | undefined;
    try {
      for await (const bytes of this.#source as AsyncIterable<Buffer>) {
        clearTimeout(release);
        this.#tail = Buffer.concat([this.#tail, bytes]).subarray(-tailBytes);
        tell(reader?.push(bytes));
        await write(shown.push(filter?.push(bytes) ?? bytes), filed.push(bytes));
        if (filter?.isHolding !== true) continue;
        release = setTimeout(() => void write(shown.push(filter.flush()), nothing), heldMs);
      }
    } catch {
      // Destroyed by finishWithin(), or a broken pipe: there is no more output.
    }
    clearTimeout(release);
    tell(reader?.flush());
    await write(Buffer.concat([shown.push(filter?.flush() ?? nothing), shown.flush()]), filed.flush());
    // What it showed in place ends with it.
    if (shown.endedWithReturn) await write(Buffer.from('\r'), Buffer.from('\r'));
    await file?.close();
  }
}

/** Creates the directory of each rank before any rank starts. */
export function createOutputDirectories(directory: string, size: number): void {
  const paths = Array.from({ length: size }, (_, rank) => outputPath(directory, rank, size, 'stdout'));
  createFolders(paths, directory);
}

function createFolders(paths: readonly string[], directory: string): void {
  try {
    for (const path of paths) mkdirSync(dirname(path), { recursive: true });
  } catch (error) {
    const reason = (error as Error).message;
    throw new HorovodError('ERR_HVD_SETTING', `--output-filename ${directory} cannot be used: ${reason}.`);
  }
}

/** DIRECTORY/rank.07/stdout */
export function outputPath(directory: string, rank: number, size: number, name: string): string {
  const width = String(Math.max(size - 1, 0)).length;
  return join(directory, `rank.${String(rank).padStart(width, '0')}`, name);
}

/** If the file cannot be written, a notice is printed once and the job continues without it. */
class OutputFile {
  readonly #writer: ConsoleWriter;
  readonly #stream: WriteStream;

  constructor(path: string, notice: (text: string) => void) {
    this.#stream = createWriteStream(path);
    this.#writer = new ConsoleWriter(this.#stream, (error) => {
      notice(
        `cannot write ${path} (--output-filename): ${error.message}. The job continues; its further output only appears here.`,
      );
    });
  }

  write(bytes: Buffer): Promise<void> {
    return this.#writer.write(bytes);
  }

  async close(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#stream.once('close', () => resolve());
      if (this.#stream.closed) resolve();
      else this.#stream.end();
    });
  }
}

function openOutputFile(options: RankOutputOptions): OutputFile | undefined {
  const { directory, rank, worker, size, name, notice } = options;
  if (directory === undefined) return undefined;
  if (worker === undefined) return new OutputFile(outputPath(directory, rank, size, name), notice);
  const path = join(directory, `worker.${worker}`, name);
  createFolders([path], directory);
  return new OutputFile(path, notice);
}
