// The format of events in a ring: float64 words, so that writing an event allocates nothing. A text is written once and referred to by
// its number afterwards. The first word of a record holds its type and its number of words. Times are microseconds of the monotonic
// clock of the rank's host.

export const recordType = {
  /** number, bytes, the text in UTF-8. Number 0: a Hello as JSON; the first record of a ring. */
  text: 1,
  /** All numbers of texts are forgotten. */
  forget: 2,
  /** track, name, from, to, arguments (a text of JSON members, or 0) */
  slice: 3,
  /** track, name, at, arguments, scope (see scopes) */
  instant: 4,
  /** name (0: unnamed), arguments, number among the unnamed, submitted, left, over, error (0: none), exchanges, then marks: stage, at … */
  operation: 5,
} as const;

/** Words before the marks of an operation. */
export const operationWords = 9;

/** Tracks of a rank, and their order. Operations are spread over lanes from `operations` on. */
export const tracks = {
  steps: 1,
  training: 2,
  cycles: 3,
  tuning: 4,
  resets: 5,
  data: 6,
  operations: 10,
} as const;
export type Track = keyof typeof tracks;

/** Names of the stages of transport/trace.ts, by their numbers. */
export const stageNames: readonly string[] = [
  'NEGOTIATE',
  '',
  'PACK',
  'REDUCE',
  'WAIT',
  'UNPACK',
  'COPY',
  'TRANSFER',
  '',
  'REPEATS',
];

/** The description of a rank. */
export interface Hello {
  readonly rank: number;
  /** Number of its process in the file, if that is not its rank: an elastic job gives ranks to other processes. */
  readonly worker?: number | undefined;
  readonly size: number;
  readonly host: string;
  readonly pid: number;
  readonly transport: string;
  /** Cores that the process may use. */
  readonly cores: number;
}

export function headOf(type: number, words: number): number {
  return type * 65536 + words;
}

/** Splits bytes of a ring into records. Keeps incomplete records. */
export class RecordReader {
  #rest: Uint8Array = new Uint8Array(0);

  /** Calls `visit(type, words)`; `words` is valid only during the call. Throws if the bytes are not records. */
  push(bytes: Uint8Array, visit: (type: number, words: Float64Array) => void): void {
    let all = bytes;
    if (this.#rest.length > 0) {
      all = new Uint8Array(this.#rest.length + bytes.length);
      all.set(this.#rest);
      all.set(bytes, this.#rest.length);
    } else if (bytes.byteOffset % 8 !== 0) {
      all = bytes.slice();
    }
    const whole = Math.floor(all.length / 8);
    const words = new Float64Array(all.buffer, all.byteOffset, whole);
    let at = 0;
    while (at < whole) {
      const head = words[at] as number;
      const length = head % 65536;
      const type = (head - length) / 65536;
      if (!(length >= 1 && type >= 1 && type <= 5)) throw new Error('not the records of a timeline');
      if (at + length > whole) break;
      visit(type, words.subarray(at, at + length));
      at += length;
    }
    this.#rest = all.slice(at * 8);
  }
}

/** The text of a `text` record. */
export function textOf(words: Float64Array): string {
  const bytes = Math.min(words[2] as number, (words.length - 3) * 8);
  return Buffer.from(words.buffer, words.byteOffset + 24, bytes).toString('utf8');
}
