// The total time during which at least one of many intervals lasted. Intervals come roughly in the order of their ends. Only the
// latest are kept separate, so that memory is bounded.

const most = 512;

export class Intervals {
  /** Disjoint, in order. */
  readonly #latest: { from: number; to: number }[] = [];
  #sum = 0;

  add(from: number, to: number): void {
    if (!(to > from)) return;
    const latest = this.#latest;
    let place = latest.length;
    let first = from;
    let last = to;
    while (place > 0 && (latest[place - 1] as { to: number }).to >= from) {
      const before = latest[place - 1] as { from: number; to: number };
      if (before.from > to) {
        place--;
        continue;
      }
      first = Math.min(first, before.from);
      last = Math.max(last, before.to);
      latest.splice(--place, 1);
    }
    latest.splice(place, 0, { from: first, to: last });
    if (latest.length <= most) return;
    const { from: oldest, to: until } = latest.shift() as { from: number; to: number };
    this.#sum += until - oldest;
  }

  get length(): number {
    return this.#latest.reduce((sum, { from, to }) => sum + to - from, this.#sum);
  }
}
