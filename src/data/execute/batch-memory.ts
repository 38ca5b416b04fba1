// Memory of batches in the main thread. Who takes a batch may give it back when its values have been copied elsewhere, as tensors()
// does: a later batch is then written there. New memory for each batch keeps the garbage collector busy, a quarter of the time
// where batches are only parsed.

import { BufferPool } from './buffer-pool.ts';
import { allocatePlain, isTensor } from './stack.ts';

export class BatchMemory {
  readonly #isReusable: boolean;
  readonly #ownsElements: boolean;
  readonly #pool = new BufferPool(allocatePlain);
  /** Memory of batches that nobody has given back: what comes from elsewhere, or twice, is left alone. */
  readonly #lent = new WeakSet<ArrayBuffer>();

  /**
   * `isReusable`: nobody but the loop has seen the batches. A function of the pipeline may have kept one. `ownsElements`: nor has anybody
   * seen the elements, which batches of byte strings consist of.
   */
  constructor(isReusable: boolean, ownsElements = false) {
    this.#isReusable = isReusable;
    this.#ownsElements = ownsElements;
  }

  readonly allocate = (bytes: number): ArrayBuffer => {
    if (!this.#isReusable) return allocatePlain(bytes);
    const buffer = this.#pool.take(bytes);
    this.#lent.add(buffer);
    return buffer;
  };

  release(batch: unknown): void {
    if (!this.#isReusable || typeof batch !== 'object' || batch === null) return;
    if (isTensor(batch)) this.#giveBack(batch.data);
    else if (Array.isArray(batch)) {
      // Short ones share memory.
      if (this.#ownsElements) for (const each of batch) this.#giveBack(each);
    } else for (const column of Object.values(batch)) if (isTensor(column)) this.#giveBack(column.data);
  }

  #giveBack(values: unknown): void {
    const buffer = ArrayBuffer.isView(values) ? values.buffer : undefined;
    if (buffer instanceof ArrayBuffer && this.#lent.delete(buffer)) this.#pool.give(buffer);
  }
}
