// The jobs of one member of a group, in order: those that wait, and those that are over but whose `complete` has not
// been called yet. It is called in a microtask, so that nobody is called back from inside a call of his own.

import assert from 'node:assert';
import type { HorovodError } from '../../errors.ts';
import type { Batch, Outcome } from '../transport.ts';

export type Complete = (outcome: Outcome | HorovodError) => void;

export interface QueuedBatch {
  readonly batch: Batch;
  readonly complete: Complete;
  /** The round it is in. */
  round: number;
  /** Others may have seen its current round. */
  isPosted: boolean;
  result: Outcome | HorovodError | undefined;
  /** Somebody has the result already; `complete` is not called. */
  isDelivered: boolean;
}

export class BatchQueue {
  #waiting: QueuedBatch[] = [];
  #undelivered: QueuedBatch[] = [];
  /** After a mismatch, until takeBack(). */
  #isHalted = false;

  get length(): number {
    return this.#waiting.length;
  }

  get isHalted(): boolean {
    return this.#isHalted;
  }

  /** The job to work on. */
  get head(): QueuedBatch | undefined {
    return this.#isHalted ? undefined : this.#waiting[0];
  }

  add(batch: Batch, complete: Complete): QueuedBatch {
    const entry = { batch, complete, round: 0, isPosted: false, result: undefined, isDelivered: false };
    this.#waiting.push(entry);
    return entry;
  }

  find(batch: Batch): QueuedBatch | undefined {
    const isIt = (entry: QueuedBatch): boolean => entry.batch === batch;
    return this.#undelivered.find(isIt) ?? this.#waiting.find(isIt);
  }

  /** The job in front is over. A mismatch halts the queue. */
  settleHead(result: Outcome | HorovodError): void {
    const entry = this.#waiting.shift();
    assert(entry !== undefined);
    if (result === 'mismatch') {
      assert(entry.round === 0, 'only the first round of a job can mismatch');
      this.#isHalted = true;
    }
    this.#settle(entry, result);
  }

  settleAll(error: HorovodError): void {
    const entries = this.#waiting;
    this.#waiting = [];
    for (const entry of entries) this.#settle(entry, error);
  }

  /** Hands the result of a job that is over to the caller, instead of to `complete`. */
  fetch(entry: QueuedBatch): Outcome {
    const { result } = entry;
    assert(result !== undefined);
    entry.isDelivered = true;
    if (result === 'done' || result === 'mismatch') return result;
    throw result;
  }

  takeBack(): Batch[] {
    const taken = this.#waiting.filter((entry) => !entry.isPosted && entry.round === 0);
    this.#waiting = this.#waiting.filter((entry) => !taken.includes(entry));
    this.#isHalted = false;
    return taken.map(({ batch }) => batch);
  }

  #settle(entry: QueuedBatch, result: Outcome | HorovodError): void {
    entry.result = result;
    this.#undelivered.push(entry);
    queueMicrotask(() => {
      this.#undelivered = this.#undelivered.filter((each) => each !== entry);
      if (entry.isDelivered) return;
      entry.isDelivered = true;
      entry.complete(result);
    });
  }
}
