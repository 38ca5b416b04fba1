// Uncaught errors in the output of ranks. One mistake ends all ranks with the same error, and Node prints each with its stack:
// here they are recognized, so that the first is printed and the report says which ranks ended with the same. Nothing else is
// held back, and the files of --output-filename get everything.
//
// Node prints a place ('train.ts:6'), the line of code, a line with '^', an empty line, the error with its stack, an empty line
// and its version.

import { fileURLToPath } from 'node:url';

export interface UncaughtError {
  /** The error, and the first line of its stack if it has one. */
  readonly lines: readonly string[];
  /** The error with its whole stack. */
  readonly stack: readonly string[];
  /** The rank that has printed the same. Undefined: this one was printed. */
  readonly sameAs: number | undefined;
}

/** Those that ranks of this job have printed. */
export class UncaughtErrors {
  readonly #ranks = new Map<string, number>();

  /** The rank that came first with this. */
  firstWith(text: string, rank: number): number {
    // Processes have ids, and the frames of Node depend on what it was doing.
    const plain = text
      .replaceAll(/\bpid:? \d+/g, 'pid ?')
      .replaceAll(/\n +at [^\n]*\bnode:[^\n]*?( \{)?(?=\n)/g, '$1');
    // Errors may name a rank that did something, the same on all ranks, or the rank that they are of.
    const own = plain.replaceAll(new RegExp(`\\brank:? ${rank}\\b`, 'g'), 'rank ?');
    const first = this.#ranks.get(plain) ?? this.#ranks.get(own) ?? rank;
    for (const key of [plain, own]) if (!this.#ranks.has(key)) this.#ranks.set(key, first);
    return first;
  }
}

const place = /^(?:file:\/\/|node:|\/|[A-Za-z]:\\)?\S.*:\d+\r?$/;
const marker = /^\s*\^+\s*$/;
const version = /^Node\.js v\d+\.\d+\.\d+\S*\s*$/;
/** Place, code and marker. */
const markedLine = 3;
/** An error may carry objects and causes. */
const maxLines = 500;

/** Takes the uncaught errors out of a rank's stderr that another rank has printed already. */
export class UncaughtErrorFilter {
  readonly #rank: number;
  readonly #errors: UncaughtErrors;
  readonly #ownRoot: string;
  #rest: Buffer = Buffer.alloc(0);
  /** Lines that may be the beginning of an uncaught error. */
  #held: string[] = [];
  #hasMarker = false;
  #found: UncaughtError | undefined;

  constructor(
    rank: number,
    errors: UncaughtErrors,
    ownRoot: string = new URL('../..', import.meta.url).href,
  ) {
    this.#rank = rank;
    this.#errors = errors;
    this.#ownRoot = ownRoot;
  }

  /** The last one. */
  get found(): UncaughtError | undefined {
    return this.#found;
  }

  /** Lines wait for what follows them. */
  get isHolding(): boolean {
    return this.#held.length > 0;
  }

  /** What can be written now. */
  push(bytes: Buffer): Buffer {
    const input = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    const end = input.lastIndexOf('\n') + 1;
    this.#rest = Buffer.from(input.subarray(end));
    // Only whole lines can be compared; a line without an end (a progress bar) is passed on if nothing waits before it.
    const out: (string | Buffer)[] = [];
    if (this.#held.length === 0 && !/:\d+\r?$/m.test(input.toString('latin1', 0, end))) {
      out.push(input.subarray(0, end));
    } else {
      const lines = input.toString('utf8', 0, end).split('\n');
      lines.pop();
      for (const line of lines) this.#take(line, out);
    }
    if (this.#held.length === 0 && !/^\S.*:\d*$/s.test(this.#rest.toString('latin1'))) {
      out.push(this.#rest);
      this.#rest = Buffer.alloc(0);
    }
    return Buffer.concat(out.map((part) => Buffer.from(part as string)));
  }

  /** What was held back, whatever it is. */
  flush(): Buffer {
    const out: string[] = [];
    this.#release(out);
    const bytes = Buffer.concat([Buffer.from(out.join('')), this.#rest]);
    this.#rest = Buffer.alloc(0);
    return bytes;
  }

  #take(line: string, out: (string | Buffer)[]): void {
    const held = this.#held;
    if (held.length === 0 && !place.test(line)) {
      out.push(`${line}\n`);
      return;
    }
    held.push(line);
    if (version.test(line) && this.#hasMarker) this.#end(out);
    else if (held.length === markedLine && marker.test(line)) this.#hasMarker = true;
    else if (held.length === markedLine) this.#giveUp(out);
    else if (held.length > maxLines) this.#release(out);
  }

  /** The first line was no beginning; one of the others may be. */
  #giveUp(out: (string | Buffer)[]): void {
    const [first, ...others] = this.#held;
    this.#held = [];
    out.push(`${first}\n`);
    for (const line of others) this.#take(line, out);
  }

  #release(out: (string | Buffer)[]): void {
    out.push(...this.#held.map((line) => `${line}\n`));
    this.#held = [];
    this.#hasMarker = false;
  }

  #end(out: (string | Buffer)[]): void {
    const error = this.#held.slice(markedLine).filter((line) => line !== '');
    // A place inside of this package says nothing to its users, nor does the empty line after it.
    if (this.#isOwn(this.#held[0] as string)) this.#held.splice(0, markedLine + 1);
    const first = this.#errors.firstWith(this.#held.join('\n'), this.#rank);
    const frame = error.findIndex((line) => /^\s+at /.test(line));
    this.#found = {
      stack: error.filter((line) => !version.test(line)),
      lines: frame < 0 ? error.slice(0, 1) : error.slice(0, frame + 1),
      sameAs: first === this.#rank ? undefined : first,
    };
    if (first !== this.#rank) this.#held = [];
    this.#release(out);
  }

  #isOwn(line: string): boolean {
    return (
      line.startsWith(this.#ownRoot) ||
      line.startsWith(fileURLToPath(this.#ownRoot)) ||
      line.startsWith('node:')
    );
  }
}
