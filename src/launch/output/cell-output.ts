// The output of ranks in a notebook cell of Deno. Its kernel shows what console.log() prints, and not what is written to
// process.stdout, so whole lines go to the console. A line without an end is shown when output is flushed.

import { Writable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';

type Console = Pick<typeof globalThis.console, 'log' | 'error'>;

/** Whether this process is the kernel of a notebook of Deno. */
export function isDenoCell(scope: object = globalThis): boolean {
  const { Deno } = scope as { Deno?: { readonly jupyter?: unknown } };
  try {
    return Deno?.jupyter !== undefined;
  } catch {
    // Outside of a kernel, reading it throws.
    return false;
  }
}

export class CellOutput extends Writable {
  readonly #print: (text: string) => void;
  readonly #decoder = new StringDecoder('utf8');
  #begun = '';

  constructor(name: 'stdout' | 'stderr', console: Console = globalThis.console) {
    super();
    this.#print = (text) => (name === 'stdout' ? console.log('%s', text) : console.error('%s', text));
  }

  override _write(bytes: Buffer, _encoding: BufferEncoding, done: () => void): void {
    const text = this.#begun + this.#decoder.write(bytes);
    // An empty write is a flush.
    const end = bytes.length === 0 ? text.length : text.lastIndexOf('\n') + 1;
    this.#begun = text.slice(end);
    if (end > 0) this.#print(text.slice(0, end).replace(/\n$/, ''));
    done();
  }

  override _final(done: () => void): void {
    const rest = this.#begun + this.#decoder.end();
    if (rest !== '') this.#print(rest);
    done();
  }
}
