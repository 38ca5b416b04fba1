// How far the monotonic clock of another host is from this one's: asked over a connection, as NTP does. An answer says when the
// question came and when the answer left, so that work in between does not count. The answer with the smallest possible error is
// kept. With a round trip of r the error is at most r/2, and grows with its age, because clocks drift.

/** Two clocks drift apart by at most so much: 50 ppm each, which is more than quartz needs. */
const driftPerUs = 100e-6;

/** Times in microseconds: `asked` and `heard` by our clock, `received` and `answered` by theirs. */
export interface ClockAnswer {
  readonly askedUs: number;
  readonly receivedUs: number;
  readonly answeredUs: number;
  readonly heardUs: number;
}

export class ClockOffset {
  #best: { readonly offsetUs: number; readonly errorUs: number; readonly atUs: number } | undefined;
  #answers = 0;

  heard({ askedUs, receivedUs, answeredUs, heardUs }: ClockAnswer): void {
    const workUs = answeredUs - receivedUs;
    const roundTripUs = heardUs - askedUs - workUs;
    if (!(roundTripUs >= 0) || !(workUs >= 0)) return;
    this.#answers += 1;
    const errorUs = roundTripUs / 2;
    if (errorUs > this.errorUs(heardUs)) return;
    const offsetUs = (receivedUs - askedUs + answeredUs - heardUs) / 2;
    this.#best = { offsetUs, errorUs, atUs: heardUs };
  }

  get answers(): number {
    return this.#answers;
  }

  /** To be added to our time to get theirs; undefined before the first answer. */
  get offsetUs(): number | undefined {
    return this.#best?.offsetUs;
  }

  /** `offsetUs` is at most so far off at this time of ours; infinite before the first answer. */
  errorUs(nowUs: number): number {
    const best = this.#best;
    return best === undefined
      ? Number.POSITIVE_INFINITY
      : best.errorUs + Math.max(0, nowUs - best.atUs) * driftPerUs;
  }
}
