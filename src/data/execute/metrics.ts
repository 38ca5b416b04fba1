// What a dataset knows of its speed. The *starved share* is the time in which the training loop waits for data, of all the time
// between the ends of its steps: near 0 the data is always ready.

import { nowMs } from '../../engine/clock.ts';
import type { DataSource, DataWatch } from '../../observe/status/data-watch.ts';
import { type Advice, adviceOn } from './advice.ts';
import type { StageTimes } from './busy-times.ts';

export interface DataMetrics {
  /** Batches (or elements, where there are none) that the loop has taken. */
  readonly batches: number;
  /** Samples of this rank among them. */
  readonly samples: number;
  /** Bytes of the tensors among them. */
  readonly bytes: number;
  /** From the first batch to the last one. */
  readonly seconds: number;
  /** In these seconds. */
  readonly batchesPerSecond: number;
  readonly samplesPerSecond: number;
  readonly bytesPerSecond: number;
  /** Time the loop has waited for data, in seconds. */
  readonly waitedSeconds: number;
  /** From 0 to 1. */
  readonly starvedShare: number;
  /** Batches that are being prepared or ready now. */
  readonly ahead: number;
  /** How many there may be now; see prefetch(). */
  readonly aheadLimit: number;
  /**
   * Seconds in which each stage was busy, summed over the threads that run it: `read` (waiting for files), `unpack` (decompressing,
   * checksums), `parse`, `map(name)`, `batch`, …
   */
  readonly busySeconds: Readonly<Record<string, number>>;
  /** Requests to file systems that had to be repeated. */
  readonly retries: number;
  /** Records that were damaged and left out (onCorrupt: 'skip'). */
  readonly damagedRecords: number;
}

export class Meter implements DataSource {
  taken = 0;
  ahead = 0;
  aheadLimit = 0;
  #samples = 0;
  #bytes = 0;
  #waitedMs = 0;
  #damaged = 0;
  #retries = 0;
  readonly #busyMs = new Map<string, number>();
  /** When the first batch was there. */
  #startedAt: number | undefined;
  #endedAt = 0;
  /** Since when the loop waits; undefined: it does not. */
  #waitsSince: number | undefined;
  #watch: DataWatch | undefined;
  #advice: Advice | string | undefined;

  /** A run begins, and the rank's watch counts its waits. `advice` as a text: its stages run elsewhere. Returns what ends it. */
  begin(watch: DataWatch | undefined, advice: Advice | string): () => void {
    this.#advice = advice;
    this.#watch = watch;
    const remove = watch?.add(this);
    return () => {
      this.#waitsSince = undefined;
      remove?.();
    };
  }

  /** The loop waits, and not for its first batch. */
  get isWaiting(): boolean {
    return this.#waitsSince !== undefined && this.#startedAt !== undefined;
  }

  /** The loop asks for a batch. */
  waits(at: number): void {
    this.#waitsSince = at;
  }

  /** There is none: the pass is over. */
  rests(): void {
    this.#waitsSince = undefined;
  }

  /** It has one. */
  waited(to: number): void {
    const from = this.#waitsSince ?? to;
    this.#waitsSince = undefined;
    // Opening files comes before the first batch: it is not part of any step.
    if (this.#startedAt === undefined) this.#startedAt = to;
    else this.#waitedMs += to - from;
    this.#endedAt = to;
    const toHostMs = nowMs() - performance.now();
    this.#watch?.waited(from + toHostMs, to + toHostMs);
  }

  /** A value was there already. */
  ready(at: number): void {
    this.#endedAt = at;
  }

  took(samples: number, bytes: number): void {
    this.taken += 1;
    this.#samples += samples;
    this.#bytes += bytes;
  }

  damaged(records: number): void {
    this.#damaged += records;
  }

  retried(requests: number): void {
    this.#retries += requests;
  }

  busy(times: StageTimes | undefined): void {
    for (const [stage, ms] of Object.entries(times ?? {})) {
      this.#busyMs.set(stage, (this.#busyMs.get(stage) ?? 0) + ms);
    }
  }

  waitedMs(now: number): number {
    if (this.#waitsSince === undefined || this.#startedAt === undefined) return this.#waitedMs;
    return this.#waitedMs + Math.max(0, now - (nowMs() - performance.now()) - this.#waitsSince);
  }

  busyMs(): ReadonlyMap<string, number> {
    const { threads = 1, readerStages = [] } = typeof this.#advice === 'object' ? this.#advice : {};
    const isOfReader = (stage: string) => readerStages.includes(stage);
    return new Map(
      [...this.#busyMs].map(([stage, ms]) => [stage, isOfReader(stage) ? ms : ms / Math.max(1, threads)]),
    );
  }

  advice(shares: ReadonlyMap<string, number>): string {
    const advice = this.#advice ?? '';
    return typeof advice === 'string' ? advice : adviceOn(shares, advice);
  }

  read(): DataMetrics {
    const totalMs = this.#startedAt === undefined ? 0 : this.#endedAt - this.#startedAt;
    const perSecond = (count: number) => (totalMs > 0 ? (count * 1000) / totalMs : 0);
    return {
      batches: this.taken,
      samples: this.#samples,
      bytes: this.#bytes,
      seconds: totalMs / 1000,
      batchesPerSecond: perSecond(this.taken),
      samplesPerSecond: perSecond(this.#samples),
      bytesPerSecond: perSecond(this.#bytes),
      waitedSeconds: this.#waitedMs / 1000,
      starvedShare: totalMs > 0 ? Math.min(1, this.#waitedMs / totalMs) : 0,
      ahead: this.ahead,
      aheadLimit: this.aheadLimit,
      busySeconds: Object.fromEntries([...this.#busyMs].map(([stage, ms]) => [stage, ms / 1000])),
      retries: this.#retries,
      damagedRecords: this.#damaged,
    };
  }
}
