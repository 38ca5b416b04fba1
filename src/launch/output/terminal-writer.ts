// The output of the launcher on a terminal. A line that ends in a carriage return, such as a progress bar, is shown in place at
// the bottom; lines that end in a newline are printed above it. One line is shown at a time: the last one that came.

import { fstatSync } from 'node:fs';
import type { Writable } from 'node:stream';
import { ConsoleWriter, ownOutput } from './console-writer.ts';

const eraseLine = '\r\x1b[K';
const [newline, carriageReturn] = [10, 13];

export class TerminalWriter extends ConsoleWriter {
  readonly #columns: () => number;
  /** What is shown in place, without its end. */
  #bar = '';
  /** The last line that was printed has no end yet: nothing can be shown below it. */
  #isMidLine = false;

  constructor(stream: Writable, onBroken: (error: Error) => void, columns: () => number) {
    super(stream, onBroken);
    this.#columns = columns;
  }

  override write(bytes: Buffer | string): Promise<void> {
    const { lines, bar } = splitBar(Buffer.from(bytes), this.#bar);
    if (lines.length === 0 && bar === this.#bar) return Promise.resolve();
    const erase = this.#isShown ? eraseLine : '';
    this.#bar = bar;
    if (lines.length > 0) this.#isMidLine = lines.at(-1) !== newline;
    const shown = this.#isShown ? this.#fitted() : '';
    return super.write(Buffer.concat([Buffer.from(erase), lines, Buffer.from(shown)]));
  }

  /** The terminal has another width. */
  redraw(): void {
    if (this.#isShown) void super.write(`${eraseLine}${this.#fitted()}`);
  }

  override async flush(): Promise<void> {
    if (this.#isShown) void super.write('\n');
    this.#bar = '';
    await super.flush();
  }

  get #isShown(): boolean {
    return this.#bar !== '' && !this.#isMidLine;
  }

  #fitted(): string {
    // Escape sequences have no width; cut in the middle they would do harm.
    return this.#bar.includes('\x1b') ? this.#bar : this.#bar.slice(0, Math.max(this.#columns() - 1, 1));
  }
}

/** Separates what stays from what is shown in place. `bar`: what is shown so far; a bare carriage return removes it. */
export function splitBar(bytes: Buffer, bar: string): { readonly lines: Buffer; readonly bar: string } {
  const lines: Buffer[] = [];
  let shown = bar;
  let start = 0;
  for (let at = 0; at < bytes.length; at++) {
    const isReturn = bytes[at] === carriageReturn && bytes[at + 1] !== newline;
    if (!isReturn && bytes[at] !== newline) continue;
    if (isReturn) shown = bytes.toString('utf8', start, at);
    else lines.push(bytes.subarray(start, at + 1));
    start = at + 1;
  }
  lines.push(bytes.subarray(start));
  return { lines: Buffer.concat(lines), bar: shown };
}

/** Without what is only shown in place: for files. */
export function withoutBars(bytes: Buffer): Buffer {
  return splitBar(bytes, '').lines;
}

/** stdout and stderr of this process. */
export interface Console {
  readonly stdout: ConsoleWriter;
  readonly stderr: ConsoleWriter;
  /** The width of the terminal that stdout is; undefined: it is none. */
  readonly columns: number | undefined;
  /** `onResize` gets the new width of the terminal. */
  watch(onResize: (columns: number) => void): void;
}

/** `isInPlace`: a terminal may show lines in place. */
export function openConsole(onBroken: (error: Error) => void, isInPlace: boolean): Console {
  const { stdout: out, stderr: error } = process;
  if (!out.isTTY || !(out.columns > 0) || !isInPlace) {
    const [stdout, stderr] = (['stdout', 'stderr'] as const).map(
      (name) => new ConsoleWriter(ownOutput(name), onBroken),
    ) as [ConsoleWriter, ConsoleWriter];
    return { stdout, stderr, columns: undefined, watch: () => undefined };
  }
  const stdout = new TerminalWriter(ownOutput('stdout'), onBroken, () => out.columns);
  // Two streams to one terminal would be written by two threads, in any order.
  const isSame = error.isTTY && fstatSync(out.fd).rdev === fstatSync(error.fd).rdev;
  const stderr = isSame ? stdout : new ConsoleWriter(ownOutput('stderr'), onBroken);
  const watch = (onResize: (columns: number) => void) => {
    out.on('resize', () => {
      onResize(out.columns);
      stdout.redraw();
    });
  };
  return { stdout, stderr, columns: out.columns, watch };
}
