// The stages of a batch and when each began, recorded by the transport while a timeline is on. A batch without a trace
// costs nothing.

/** A stage lasts until the next mark. The numbers are those of native/src/group/trace.h. */
export const stage = {
  /** This member has posted a round. */
  posted: 0,
  /** All members have posted it, and they agree. */
  agreed: 1,
  pack: 2,
  reduce: 3,
  /** Waiting for other members inside an agreed operation. */
  wait: 4,
  unpack: 5,
  copy: 6,
  /** Moving bytes between hosts. */
  transfer: 7,
  over: 8,
  /** The stages above again and again; no longer recorded one by one. */
  repeats: 9,
} as const;

/** Limits the trace of an operation in very many pieces. */
const maxMarkWords: number = 192;

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
    if (this.marks.length < maxMarkWords) this.marks.push(code, atUs);
  }
}
