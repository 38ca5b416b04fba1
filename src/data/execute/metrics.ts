// What a dataset knows of its speed. The *starved share* is the time in which the training loop waits for data, of all the time
// between the ends of its steps: near 0 the data is always ready.

export interface DataMetrics {
  /** Batches (or elements, where there are none) that the loop has taken. */
  readonly batches: number;
  /** Samples of this rank among them. */
  readonly samples: number;
  /** Bytes of the tensors among them. */
  readonly bytes: number;
  /** Time the loop has waited for data, in seconds. */
  readonly waitedSeconds: number;
  /** From 0 to 1. */
  readonly starvedShare: number;
  /** Batches that are being prepared or ready now. */
  readonly ahead: number;
  /** Records that were damaged and left out (onCorrupt: 'skip'). */
  readonly damagedRecords: number;
}

export class Meter {
  #batches = 0;
  #samples = 0;
  #bytes = 0;
  #waitedMs = 0;
  #damaged = 0;
  /** When the first batch was asked for. */
  #startedAt: number | undefined;
  #endedAt = 0;
  ahead = 0;

  /** Time in next(). */
  waited(from: number, to: number): void {
    // Opening files comes before the first batch: it is not part of any step.
    if (this.#startedAt === undefined) this.#startedAt = to;
    else this.#waitedMs += to - from;
    this.#endedAt = to;
  }

  /** A value was there already. */
  ready(at: number): void {
    this.#endedAt = at;
  }

  took(samples: number, bytes: number): void {
    this.#batches += 1;
    this.#samples += samples;
    this.#bytes += bytes;
  }

  damaged(records: number): void {
    this.#damaged += records;
  }

  read(): DataMetrics {
    const totalMs = this.#startedAt === undefined ? 0 : this.#endedAt - this.#startedAt;
    return {
      batches: this.#batches,
      samples: this.#samples,
      bytes: this.#bytes,
      waitedSeconds: this.#waitedMs / 1000,
      starvedShare: totalMs > 0 ? Math.min(1, this.#waitedMs / totalMs) : 0,
      ahead: this.ahead,
      damagedRecords: this.#damaged,
    };
  }
}
