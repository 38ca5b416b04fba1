// The batches of one member of a group, in order: those that wait, and those that are over but whose `complete` has not
// been called yet. `complete` runs in a microtask, so that no caller is called back from inside its own call.

import assert from 'node:assert';
import type { HorovodError } from '../../errors.ts';
import type { Batch, Outcome } from '../transport.ts';

export type Complete = (outcome: Outcome | HorovodError) => void;

export interface QueuedBatch {
  readonly batch: Batch;
  readonly complete: Complete;
  /** Number of its current round. */
  round: number;
  /** Other members may have seen its current round. */
  isPosted: boolean;
  result: Outcome | HorovodError | undefined;
  /** The result has been handed out already; `complete` is not called. */
  isDelivered: boolean;
}

export class BatchQueue {
  #waiting: QueuedBatch[] = [];
  #undelivered: QueuedBatch[] = [];
  /** After a mismatch, until takeBack(). */
  #isHalted = false;

  get isHalted(): boolean {
    return this.#isHalted;
  }

  /** The batch to work on. */
  get head(): QueuedBatch | undefined {
    return this.#isHalted ? undefined : this.#waiting[0];
  }

  add(batch: Batch, complete: Complete): QueuedBatch {
    const entry = { batch, complete, round: 0, isPosted: false, result: undefined, isDelivered: false };
    this.#waiting.push(entry);
    return entry;
  }

  /** add() for a batch that the caller blocks for. */
  addAlone(batch: Batch): QueuedBatch {
    assert(this.#waiting.length === 0, 'runSync() while another batch of the group is queued');
    return this.add(batch, () => {});
  }

  /** The submitted batch that waitSync() is called for. */
  find(batch: Batch): QueuedBatch {
    const isIt = (entry: QueuedBatch): boolean => entry.batch === batch;
    const entry = this.#undelivered.find(isIt) ?? this.#waiting.find(isIt);
    assert(entry !== undefined, `waitSync() for ${batch.label}, which is not in flight`);
    return entry;
  }

  /** The first batch is over. A mismatch halts the queue. */
  settleHead(result: Outcome | HorovodError): void {
    const entry = this.#waiting.shift();
    assert(entry !== undefined);
    if (result === 'mismatch') {
      assert(entry.round === 0, 'only the first round of a batch can mismatch');
      this.#isHalted = true;
    }
    this.#settle(entry, result);
  }

  settleAll(error: HorovodError): void {
    const entries = this.#waiting;
    this.#waiting = [];
    for (const entry of entries) this.#settle(entry, error);
  }

  /** Hands the result of a batch that is over to the caller instead of to `complete`. */
  fetch(entry: QueuedBatch): Outcome {
    const { result } = entry;
    assert(result !== undefined);
    entry.isDelivered = true;
    if (result === 'done' || result === 'mismatch') return result;
    throw result;
  }

  /** For submit(): the outcome of a batch that could run at once. Errors go to `complete`. */
  fetchIfOver(entry: QueuedBatch): Outcome | undefined {
    const { result } = entry;
    return result === 'done' || result === 'mismatch' ? this.fetch(entry) : undefined;
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
