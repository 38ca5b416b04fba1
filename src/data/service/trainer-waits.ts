// How long a training loop waits for a data service, on its way to the dispatcher, which `horovod status` asks. The loop tells its consumer
// when it begins to wait and how long it has waited; the consumer, which is not blocked meanwhile, tells the dispatcher its share.

import { type DataSource, DataWatch } from '../../observe/status/data-watch.ts';
import type { Meter } from '../execute/metrics.ts';

/** What the loop tells. */
export interface Waits {
  /** In all. */
  readonly waitedMs: number;
  /** It goes on. */
  readonly isWaiting: boolean;
  /** Batches that the loop has taken. */
  readonly taken: number;
}

/** A loop that does not wait has little to tell. */
const tellMs = 1000;
const reportMs = 1000;

/** The side of the loop. */
export class WaitTeller {
  readonly #meter: Meter;
  readonly #tell: (waits: Waits) => void;
  #isWaiting = false;
  #toldAt = Number.NEGATIVE_INFINITY;

  constructor(meter: Meter, tell: (waits: Waits) => void) {
    this.#meter = meter;
    this.#tell = tell;
  }

  /** Nothing is there. */
  waits(at: number): void {
    if (!this.#isWaiting && this.#meter.isWaiting) this.#say(at, true);
  }

  /** The loop goes on, with a batch or without. */
  goesOn(at: number): void {
    if (this.#isWaiting || at - this.#toldAt >= tellMs) this.#say(at, false);
  }

  #say(at: number, isWaiting: boolean): void {
    this.#isWaiting = isWaiting;
    this.#toldAt = at;
    const { waitedSeconds, batches } = this.#meter.read();
    this.#tell({ waitedMs: 1000 * waitedSeconds, isWaiting, taken: batches });
  }
}

/** The side of the consumer. */
export class TrainerWaits implements DataSource {
  readonly #watch = new DataWatch(() => {});
  readonly #timer: NodeJS.Timeout;
  #last: Waits = { waitedMs: 0, isWaiting: false, taken: 0 };
  #heardAt = 0;

  /** `report`: about once a second, the share of its time in which the loop waits; null: it does not run. */
  constructor(report: (share: number | null) => void) {
    this.#watch.add(this);
    this.#timer = setInterval(() => report(this.look(performance.now())), reportMs).unref();
  }

  hear(waits: Waits, at: number = performance.now()): void {
    this.#last = waits;
    this.#heardAt = at;
  }

  look(at: number): number | null {
    return this.#watch.look(at)?.share ?? null;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  get taken(): number {
    return this.#last.taken;
  }

  waitedMs(at: number): number {
    const { waitedMs, isWaiting } = this.#last;
    return isWaiting ? waitedMs + Math.max(0, at - this.#heardAt) : waitedMs;
  }

  busyMs(): ReadonlyMap<string, number> {
    return new Map();
  }

  advice(): string {
    return '';
  }
}
