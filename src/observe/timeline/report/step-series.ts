// How long the steps of a rank took, one after another: averages over as many steps each as keeps their number small, and
// some single steps, from which a typical one can be chosen.

const most = 400;

export interface StepPlace {
  readonly fromUs: number;
  readonly durationUs: number;
}

export class StepSeries {
  #stepsPerPoint = 1;
  #stride = 1;
  #steps = 0;
  #sums: number[] = [];
  #places: StepPlace[] = [];

  add(fromUs: number, durationUs: number): void {
    const point = Math.floor(this.#steps / this.#stepsPerPoint);
    this.#sums[point] = (this.#sums[point] ?? 0) + durationUs;
    if (this.#steps % this.#stride === 0) this.#places.push({ fromUs, durationUs });
    this.#steps++;
    if (this.#sums.length > most) {
      this.#sums = pairsOf(this.#sums).map(([a, b = 0]) => a + b);
      this.#stepsPerPoint *= 2;
    }
    if (this.#places.length > most) {
      this.#places = pairsOf(this.#places).map(([first]) => first);
      this.#stride *= 2;
    }
  }

  /** Averages in microseconds; the last one may be of fewer steps. */
  get points(): number[] {
    return this.#sums.map((sum, index) => {
      const steps = Math.min(this.#stepsPerPoint, this.#steps - index * this.#stepsPerPoint);
      return sum / steps;
    });
  }

  /** A step of the second half that took as long as half of all steps do at most. Undefined: there are none. */
  get typical(): StepPlace | undefined {
    const median = [...this.#places].sort((a, b) => a.durationUs - b.durationUs)[this.#places.length >> 1];
    if (median === undefined) return undefined;
    const distance = ({ durationUs }: StepPlace) => Math.abs(durationUs - median.durationUs);
    return this.#places
      .slice(this.#places.length >> 1)
      .reduce((best, place) => (distance(place) < distance(best) ? place : best));
  }
}

function pairsOf<T>(list: readonly T[]): [T, T?][] {
  return Array.from(
    { length: Math.ceil(list.length / 2) },
    (_, i) => list.slice(2 * i, 2 * i + 2) as [T, T?],
  );
}
