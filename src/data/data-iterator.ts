// The iterator of a dataset. It opens files and threads with the first next(), and closes them at its end, with return() or with
// the next iterator of the same dataset.

import { openContext } from '../context/default/default-context.ts';
import { fromCaller, HorovodError } from '../errors.ts';
import type { BatchInfo, Delivered } from './execute/iteration.ts';
import type { Run } from './execute/run.ts';

export interface IteratorOwner {
  open(): Promise<Run>;
  /** Gets the function that ends the iterator when the dataset goes elsewhere. */
  takeEnd(end: () => Promise<void>): void;
  /** False if the dataset has gone elsewhere, or has a newer iterator. */
  isCurrent(): boolean;
}

const infoKey: unique symbol = Symbol('horovod.data.batchInfo');

/** What is known of a batch: epoch, position, weight; undefined for anything else. */
export function batchInfo(batch: unknown): BatchInfo | undefined {
  return typeof batch === 'object' && batch !== null
    ? (batch as { [infoKey]?: BatchInfo })[infoKey]
    : undefined;
}

export class DataIterator<T> implements AsyncIterableIterator<T, undefined, undefined> {
  readonly #owner: IteratorOwner;
  #opening: Promise<Run> | undefined;
  #run: Run | undefined;
  /** The context in which it was opened: ranks of another generation have other shares. */
  #context: unknown;
  #isOver = false;
  /** Its end was reached, or return() was called: next() says so, and not that it was ended by somebody else. */
  #isDone = false;
  /** Calls of next() are answered one after the other; how many are not yet. */
  #waiting = 0;
  #last: Promise<unknown> = Promise.resolve();

  constructor(owner: IteratorOwner) {
    this.#owner = owner;
    owner.takeEnd(() => this.#end());
  }

  /** Opens files and threads before the first next(). Collective for files that ranks share. */
  async open(): Promise<void> {
    if (this.#isOver) return;
    this.#context = openContext();
    this.#opening ??= this.#owner.open();
    try {
      this.#run = await this.#opening;
    } catch (error) {
      this.#isOver = true;
      throw fromCaller(error);
    }
    // return() came meanwhile.
    if (this.#isOver) await this.#run.feed.close();
  }

  next(): Promise<IteratorResult<T, undefined>> {
    const ready = this.#takeReady();
    if (ready !== undefined) return Promise.resolve(this.#result(ready));
    this.#waiting += 1;
    const turn = this.#last
      .then(() => this.#next())
      .finally(() => {
        this.#waiting -= 1;
      });
    this.#last = turn.catch(() => {});
    return turn;
  }

  /** next(), blocking the thread. After open() or a first next() only. */
  nextSync(): IteratorResult<T, undefined> {
    if (this.#isOver) return this.#afterEnd();
    if (this.#run === undefined) {
      throw new HorovodError(
        'ERR_HVD_WOULD_BLOCK',
        'nextSync(): opening files cannot block. Call and await open() of the iterator first.',
      );
    }
    this.#checkCurrent();
    try {
      return this.#result(this.#run.iteration.nextSync());
    } catch (error) {
      this.#end().catch(() => {});
      throw fromCaller(error);
    }
  }

  /**
   * Gives the memory of a batch back: a later batch is written there. Call it when the values of the batch have been copied
   * elsewhere, and do not use them afterwards. It saves garbage collection in loops that take thousands of batches per second.
   */
  release(batch: T): void {
    if (!this.#isOver) this.#run?.release(batch);
  }

  async return(): Promise<IteratorReturnResult<undefined>> {
    this.#isDone = true;
    await this.#end();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end();
  }

  /** An element that was computed together with the one before: asking for it costs no turn of the event loop. */
  #takeReady(): Delivered | undefined {
    if (this.#waiting > 0 || this.#isOver || this.#run === undefined || !this.#isCurrent()) return undefined;
    return this.#run.iteration.takeReady();
  }

  async #next(): Promise<IteratorResult<T, undefined>> {
    if (this.#run === undefined && !this.#isOver) await this.open();
    if (this.#isOver || this.#run === undefined) return this.#afterEnd();
    this.#checkCurrent();
    try {
      const result = this.#result(await this.#run.iteration.next());
      if (result.done) await this.#end();
      return result;
    } catch (error) {
      await this.#end();
      throw fromCaller(error);
    }
  }

  #result(delivered: Delivered | undefined): IteratorResult<T, undefined> {
    if (delivered === undefined) {
      this.#isDone = true;
      this.#end().catch(() => {});
      return { done: true, value: undefined };
    }
    const { value, info } = delivered;
    const isObject = typeof value === 'object' && value !== null;
    if (info !== undefined && isObject && Object.isExtensible(value)) {
      Object.defineProperty(value, infoKey, { value: info, configurable: true });
    }
    return { done: false, value: value as T };
  }

  #afterEnd(): IteratorReturnResult<undefined> {
    if (!this.#isDone && this.#run !== undefined) throw staleError();
    return { done: true, value: undefined };
  }

  #checkCurrent(): void {
    if (this.#isCurrent()) return;
    this.#end().catch(() => {});
    throw staleError();
  }

  #isCurrent(): boolean {
    return this.#owner.isCurrent() && this.#context === openContext();
  }

  async #end(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    await this.#run?.feed.close();
  }
}

function staleError(): HorovodError {
  return new HorovodError(
    'ERR_HVD_STALE',
    'this iterator is of an earlier place in the data or of an earlier membership, or the dataset has a newer one. Call iterator() ' +
      'again, or start a new for await loop; inside elastic.run() the training function does when it is called again.',
  );
}
