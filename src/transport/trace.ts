// What a transport tells about a job while a timeline is on: which stage it was in from when on. A job without a trace
// costs nothing.

/** What a mark begins lasts until the next one. The numbers are those of native/src/group/trace.h. */
export const stage = {
  /** This member has posted a round. */
  posted: 0,
  /** All have, and they agree. */
  agreed: 1,
  pack: 2,
  reduce: 3,
  /** For other members, inside an agreed operation. */
  wait: 4,
  unpack: 5,
  copy: 6,
  /** Between hosts. */
  transfer: 7,
  over: 8,
  /** More of what came before, in pieces that are not told apart. */
  repeats: 9,
} as const;

/** Bounds what an operation in very many pieces may say. */
export const mostMarkWords: number = 192;

export class BatchTrace {
  /** stage, microseconds of the host's monotonic clock, stage, microseconds … */
  readonly marks: number[] = [];
  readonly #nowUs: () => number;

  constructor(nowUs: () => number) {
    this.#nowUs = nowUs;
  }

  mark(code: number): void {
    this.add(code, this.#nowUs());
  }

  add(code: number, atUs: number): void {
    if (this.marks.length < mostMarkWords) this.marks.push(code, atUs);
  }
}
