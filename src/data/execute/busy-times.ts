// How long the stages of a pipeline were busy. Each thread counts for itself; its times travel with the items that it has worked on.

/** Milliseconds by stage. */
export type StageTimes = Readonly<Record<string, number>>;

export class BusyTimes {
  #times: Record<string, number> | undefined;

  add(stage: string, ms: number): void {
    this.#times ??= {};
    this.#times[stage] = (this.#times[stage] ?? 0) + ms;
  }

  addAll(times: StageTimes | undefined): void {
    if (times === undefined) return;
    for (const [stage, ms] of Object.entries(times)) this.add(stage, ms);
  }

  read(): StageTimes {
    return { ...this.#times };
  }

  /** What has come together since the last time. */
  take(): StageTimes | undefined {
    const times = this.#times;
    this.#times = undefined;
    return times;
  }
}

/** The time in which at least one of several things was going on. */
export class Overlap {
  #count = 0;
  #sinceMs = 0;
  #totalMs = 0;

  enter(): void {
    if (this.#count++ === 0) this.#sinceMs = performance.now();
  }

  leave(): void {
    if (--this.#count === 0) this.#totalMs += performance.now() - this.#sinceMs;
  }

  get totalMs(): number {
    return this.#count === 0 ? this.#totalMs : this.#totalMs + performance.now() - this.#sinceMs;
  }
}

/** The reader's work: it waits for files, or decompresses and checks what it has read. */
export class ReaderTimes {
  readonly reads: Overlap = new Overlap();
  readonly items: Overlap = new Overlap();
  readonly #unpack: string;
  #readMs = 0;
  #itemMs = 0;

  /** `unpack`: the name of what is not reading. */
  constructor(unpack: string) {
    this.#unpack = unpack;
  }

  /** Since the last time. */
  take(): StageTimes {
    const [readMs, itemMs] = [this.reads.totalMs, this.items.totalMs];
    const [read, items] = [readMs - this.#readMs, itemMs - this.#itemMs];
    [this.#readMs, this.#itemMs] = [readMs, itemMs];
    return { read, [this.#unpack]: Math.max(0, items - read) };
  }
}
