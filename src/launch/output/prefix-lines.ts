// Puts `[rank]<stdout>:` in front of each line of a rank's output. It works on bytes and passes on whole lines, so that the
// output of another rank never splits a multi-byte character. A carriage return (progress bars) ends a line, too.

const newline = 10;
const carriageReturn = 13;

/** A longer line is passed on in pieces, to limit the memory it takes. */
const maxPieceBytes = 64 * 1024;

export class LinePrefixer {
  readonly #prefix: () => string;
  #rest: Buffer = Buffer.alloc(0);
  #isMidLine = false;
  #endedWithReturn = false;

  /** `prefix` is called for each line, because it may contain the time. */
  constructor(prefix: () => string) {
    this.#prefix = prefix;
  }

  /** What can be written now. */
  push(bytes: Buffer): Buffer {
    let input = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    const pieces: Buffer[] = [];
    if (this.#endedWithReturn && input[0] === newline) {
      pieces.push(input.subarray(0, 1));
      input = input.subarray(1);
    }
    if (bytes.length > 0) this.#endedWithReturn = false;
    let start = 0;
    for (let at = 0; at < input.length; at++) {
      if (input[at] !== newline && input[at] !== carriageReturn) continue;
      if (input[at] === carriageReturn && input[at + 1] === newline) at++;
      const line = input.subarray(start, at + 1);
      // A carriage return at the start of a line only moves the cursor.
      if (line[0] === carriageReturn && !this.#isMidLine) pieces.push(line);
      else this.#line(pieces, line);
      this.#isMidLine = false;
      start = at + 1;
      this.#endedWithReturn = start === input.length && input[at] === carriageReturn;
    }
    this.#rest = Buffer.from(input.subarray(start));
    if (this.#rest.length >= maxPieceBytes) {
      const whole = endOfLastCharacter(this.#rest);
      this.#line(pieces, this.#rest.subarray(0, whole));
      this.#isMidLine = true;
      this.#rest = this.#rest.subarray(whole);
    }
    return Buffer.concat(pieces);
  }

  /** The last line ended in a carriage return alone. */
  get endedWithReturn(): boolean {
    return this.#endedWithReturn;
  }

  /** The last line, if it has no end. */
  flush(): Buffer {
    const pieces: Buffer[] = [];
    if (this.#rest.length > 0) this.#line(pieces, this.#rest);
    this.#rest = Buffer.alloc(0);
    return Buffer.concat(pieces);
  }

  #line(pieces: Buffer[], line: Buffer): void {
    if (!this.#isMidLine) pieces.push(Buffer.from(this.#prefix()));
    pieces.push(line);
  }
}

/** '[0]<stdout>:', or with the time: 'Mon Jan 20 12:00:01 2020 [0]<stdout>:'. */
export function linePrefix(rank: number, stream: 'stdout' | 'stderr', now?: Date): string {
  return `${now === undefined ? '' : `${timestamp(now)} `}[${rank}]<${stream}>:`;
}

function timestamp(now: Date): string {
  // 'Mon Jan 20 2020 12:00:01 GMT…'
  const [weekday, month, day, year, time] = now.toString().split(' ');
  return `${weekday} ${month} ${day} ${time} ${year}`;
}

/** How many bytes are complete UTF-8 characters; all of them if they are not UTF-8. */
function endOfLastCharacter(bytes: Buffer): number {
  for (let back = 1; back <= 3; back++) {
    const byte = bytes[bytes.length - back] as number;
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}
