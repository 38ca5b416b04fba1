// How far the monotonic clock of another host is from this one's: asked over a connection, from the answers that came
// back soonest. With a round trip of r the error is r/2 at most, and in practice far less.

/** So many of the last answers are remembered: clocks drift, if only by some microseconds a second. */
const remembered = 16;

export class ClockOffset {
  readonly #answers: { offsetUs: number; roundTripUs: number }[] = [];

  /** Asked at `askedUs`, heard at `heardUs` by our clock; `theirsUs` is what the other's clock said in between. */
  heard(askedUs: number, theirsUs: number, heardUs: number): void {
    const roundTripUs = heardUs - askedUs;
    if (!(roundTripUs >= 0)) return;
    this.#answers.push({ offsetUs: theirsUs - (askedUs + heardUs) / 2, roundTripUs });
    if (this.#answers.length > remembered) this.#answers.shift();
  }

  get answers(): number {
    return this.#answers.length;
  }

  /** To be added to our time to get theirs; undefined before the first answer. */
  get offsetUs(): number | undefined {
    let best: { offsetUs: number; roundTripUs: number } | undefined;
    for (const answer of this.#answers) {
      if (best === undefined || answer.roundTripUs <= best.roundTripUs) best = answer;
    }
    return best?.offsetUs;
  }

  /** At most so far off. */
  get errorUs(): number {
    return Math.min(...this.#answers.map(({ roundTripUs }) => roundTripUs)) / 2;
  }
}
