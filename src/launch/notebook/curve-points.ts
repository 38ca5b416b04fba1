// The points of a curve in a cell: as many as can be seen, over the whole training. When there are too many, every other one is left out,
// so that old and new ones stay equally far apart.

const maxPoints = 200;

export type CurvePoint = readonly [step: number, value: number];

export class CurvePoints {
  #points: CurvePoint[] = [];
  /** Of the points that came, every one is kept, or every second, fourth … */
  #every = 1;
  #skipped = 0;
  #newest: CurvePoint | undefined;

  clear(): void {
    this.#points = [];
    this.#every = 1;
    this.#skipped = 0;
    this.#newest = undefined;
  }

  /** What is no number of its own (NaN, infinite) is a gap in the curve. */
  add(step: number, value: number): void {
    const [lastStep, lastValue] = this.#newest ?? [];
    if (step === lastStep && Object.is(value, lastValue)) return;
    const point: CurvePoint = [step, value];
    this.#newest = point;
    this.#skipped += 1;
    if (this.#skipped < this.#every) return;
    this.#skipped = 0;
    this.#points.push(point);
    if (this.#points.length < maxPoints) return;
    this.#points = this.#points.filter((_, index) => index % 2 === 1);
    this.#every *= 2;
  }

  /** The newest is always there. */
  get points(): readonly CurvePoint[] {
    const newest = this.#newest;
    return newest === undefined || this.#points.at(-1) === newest ? this.#points : [...this.#points, newest];
  }
}
