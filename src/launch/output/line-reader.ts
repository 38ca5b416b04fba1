// The output of a rank as lines of text, for whoever watches the job: bytes in any pieces go in, whole lines come out. What a rank shows in
// place, with carriage returns (progress bars), is no line.

import { StringDecoder } from 'node:string_decoder';

/** A line that a rank has printed, without its end. */
export interface OutputLine {
  readonly rank: number;
  readonly stream: 'stdout' | 'stderr';
  readonly text: string;
}

/** A longer line comes in pieces, to limit the memory it takes. */
const maxCharacters = 16 * 1024;

export class LineReader {
  readonly #decoder = new StringDecoder('utf8');
  #rest = '';

  /** The lines that are complete now. */
  push(bytes: Buffer): string[] {
    const lines = (this.#rest + this.#decoder.write(bytes)).split('\n');
    this.#rest = afterReturn(lines.pop() as string);
    const pieces = lines.flatMap((line) => inPieces(afterReturn(line.replace(/\r+$/, ''))));
    while (this.#rest.length > maxCharacters) {
      pieces.push(this.#rest.slice(0, maxCharacters));
      this.#rest = this.#rest.slice(maxCharacters);
    }
    return pieces;
  }

  /** The last line, if it has no end. */
  flush(): string[] {
    const rest = (this.#rest + this.#decoder.end()).replace(/\r+$/, '');
    this.#rest = '';
    return rest === '' ? [] : [rest];
  }
}

/** A carriage return starts the line anew; at its end it may be half of `\r\n`. */
function afterReturn(line: string): string {
  const at = line.lastIndexOf('\r', line.length - 2);
  return at < 0 ? line : line.slice(at + 1);
}

function inPieces(line: string): string[] {
  if (line.length <= maxCharacters) return [line];
  const count = Math.ceil(line.length / maxCharacters);
  return Array.from({ length: count }, (_, index) =>
    line.slice(index * maxCharacters, (index + 1) * maxCharacters),
  );
}
