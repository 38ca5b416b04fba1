// How long each phase of the start of a job took, for --verbose.

export class StartClock {
  readonly #phases: { readonly name: string; readonly ms: number }[] = [];
  #since: number;

  /** `since`: in the time of performance.now(); 0 is the start of this process. */
  constructor(since: number = performance.now()) {
    this.#since = since;
  }

  /** The phase `name` has ended now. */
  mark(name: string): void {
    const now = performance.now();
    this.#phases.push({ name, ms: now - this.#since });
    this.#since = now;
  }

  /** A phase that was measured elsewhere and took `ms`. */
  add(name: string, ms: number): void {
    this.#phases.push({ name, ms });
    this.#since += ms;
  }

  /** 'start took 812 ms: launcher 90 ms, resolve 2 ms, …' */
  describe(): string {
    const total = this.#phases.reduce((sum, { ms }) => sum + ms, 0);
    const phases = this.#phases.map(({ name, ms }) => `${name} ${Math.round(ms)} ms`).join(', ');
    return `start took ${Math.round(total)} ms: ${phases}`;
  }
}
