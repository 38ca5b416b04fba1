// How long training waits for its data, for the status page and the timeline. Pipelines lie in a layer above and tell this watch what
// they do through two small interfaces; it never asks them to do anything. The *starved share* is the time in which the training loop
// waits for data, of all time; its page shows that of the last seconds, and since when it is too large, with the reason.

import type { DataStatus } from './rank-status.ts';

/** What a pipeline knows of itself. Its numbers only grow. */
export interface DataSource {
  /** Batches, or elements, that the loop has taken. */
  readonly taken: number;
  /** Time that the loop has waited, up to `nowMs` if it is waiting. */
  waitedMs(nowMs: number): number;
  /** By stage: the time in which it was busy, divided by how many threads run it. */
  busyMs(): ReadonlyMap<string, number>;
  /** Which stage is to blame, and what to raise. `shares`: how busy each stage was in the last seconds, from 0 to 1. */
  advice(shares: ReadonlyMap<string, number>): string;
}

interface Look {
  readonly atMs: number;
  readonly waitedMs: number;
  readonly taken: number;
  readonly busyMs: ReadonlyMap<string, number>;
}

/** Shares are those of so many milliseconds. */
const windowMs = 5000;
/** A loop that waits longer than this share of its time is starved. */
export const starvedShare = 0.05;

export class DataWatch {
  readonly #sources = new Map<DataSource, Look[]>();
  readonly #onWait: (fromMs: number, toMs: number) => void;
  #starvedSinceMs: number | undefined;

  /** Calls `onWait` with the length of each wait, in milliseconds of the host's clock. */
  constructor(onWait: (fromMs: number, toMs: number) => void) {
    this.#onWait = onWait;
  }

  /** The pipeline runs from now on; returns what ends that. */
  add(source: DataSource): () => void {
    this.#sources.set(source, []);
    return () => void this.#sources.delete(source);
  }

  /** The loop has waited for a batch. */
  waited(fromMs: number, toMs: number): void {
    this.#onWait(fromMs, toMs);
  }

  /** Undefined: no pipeline runs, or none has delivered anything lately. Called about twice a second. */
  look(atMs: number): DataStatus | undefined {
    let share = 0;
    let worst: { readonly source: DataSource; readonly share: number } | undefined;
    for (const [source, looks] of this.#sources) {
      const now = {
        atMs,
        waitedMs: source.waitedMs(atMs),
        taken: source.taken,
        busyMs: new Map(source.busyMs()),
      };
      while (looks.length > 1 && atMs - (looks[1] as Look).atMs >= windowMs) looks.shift();
      looks.push(now);
      const first = looks[0] as Look;
      const [seconds, waited] = [now.atMs - first.atMs, now.waitedMs - first.waitedMs];
      if (seconds <= 0 || (waited <= 0 && now.taken === first.taken)) continue;
      const own = Math.min(1, waited / seconds);
      share += own;
      if (worst === undefined || own > worst.share) worst = { source, share: own };
    }
    if (worst === undefined || share <= starvedShare) this.#starvedSinceMs = undefined;
    if (worst === undefined) return undefined;
    const rounded = Number(Math.min(1, share).toPrecision(3));
    if (share <= starvedShare) return { share: rounded };
    this.#starvedSinceMs ??= atMs;
    const starvedMs = Math.round(atMs - this.#starvedSinceMs);
    return { share: rounded, starvedMs, advice: worst.source.advice(this.#sharesOf(worst.source)) };
  }

  #sharesOf(source: DataSource): Map<string, number> {
    const looks = this.#sources.get(source) as readonly Look[];
    const [first, last] = [looks[0] as Look, looks.at(-1) as Look];
    const shares = new Map<string, number>();
    for (const [stage, busyMs] of last.busyMs) {
      const share = (busyMs - (first.busyMs.get(stage) ?? 0)) / (last.atMs - first.atMs);
      shares.set(stage, Math.min(1, Math.max(0, share)));
    }
    return shares;
  }
}
