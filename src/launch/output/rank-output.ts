// Passes one output stream of one rank on to the console and, on request, to a file. It keeps the last lines for the
// failure report.

import { createWriteStream, mkdirSync, type WriteStream } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { HorovodError } from '../../errors.ts';
import { ConsoleWriter } from './console-writer.ts';
import { LinePrefixer, linePrefix } from './prefix-lines.ts';

export interface RankOutputOptions {
  readonly rank: number;
  readonly name: 'stdout' | 'stderr';
  readonly prefix: 'none' | 'rank' | 'rank and time';
  /** Of --output-filename: rank.<rank>/stdout below it. */
  readonly directory?: string | undefined;
  /** The number of ranks; directory names are padded to sort well. */
  readonly size: number;
  /** Reports that a file cannot be written. */
  readonly notice: (text: string) => void;
}

const tailBytes = 4096;
const tailLines = 12;

export class RankOutput {
  /** Settles when the stream has ended and all of it is written. */
  readonly finished: Promise<void>;
  readonly #source: Readable;
  #tail: Buffer = Buffer.alloc(0);
  #isWriting = false;
  #quietTurns = 0;

  constructor(source: Readable, target: ConsoleWriter, options: RankOutputOptions) {
    this.#source = source;
    this.finished = this.#carry(target, openOutputFile(options), options);
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
    const { rank, name, prefix } = options;
    const prefixer = new LinePrefixer(() => {
      if (prefix === 'none') return '';
      return linePrefix(rank, name, prefix === 'rank and time' ? new Date() : undefined);
    });
    const write = async (bytes: Buffer) => {
      this.#isWriting = true;
      await Promise.all([target.write(bytes), file?.write(bytes)]);
      this.#isWriting = false;
      this.#quietTurns = 0;
    };
    try {
      for await (const bytes of this.#source as AsyncIterable<Buffer>) {
        this.#tail = Buffer.concat([this.#tail, bytes]).subarray(-tailBytes);
        await write(prefixer.push(bytes));
      }
    } catch {
      // Destroyed by finishWithin(), or a broken pipe: there is no more output.
    }
    await write(prefixer.flush());
    await file?.close();
  }
}

/** Creates the directory of each rank before any rank starts. */
export function createOutputDirectories(directory: string, size: number): void {
  try {
    for (let rank = 0; rank < size; rank++) {
      mkdirSync(dirname(outputPath(directory, rank, size, 'stdout')), { recursive: true });
    }
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

function openOutputFile({ directory, rank, size, name, notice }: RankOutputOptions): OutputFile | undefined {
  if (directory === undefined) return undefined;
  return new OutputFile(outputPath(directory, rank, size, name), notice);
}
