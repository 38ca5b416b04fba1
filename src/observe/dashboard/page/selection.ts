// The one rank that the user looks at, shared by table, heat map, chart and logs.

export class Selection {
  readonly #listeners: ((rank: number | undefined) => void)[] = [];
  #rank: number | undefined;

  get rank(): number | undefined {
    return this.#rank;
  }

  /** The same rank again: none. */
  toggle(rank: number): void {
    this.set(rank === this.#rank ? undefined : rank);
  }

  set(rank: number | undefined): void {
    if (rank === this.#rank) return;
    this.#rank = rank;
    for (const listener of this.#listeners) listener(rank);
  }

  onChange(listener: (rank: number | undefined) => void): void {
    this.#listeners.push(listener);
  }
}
