// Memory that is used again. New memory has to be cleared and is in no cache of the processor; and the garbage collector of a
// thread hardly notices shared memory, which other threads may still see: without a pool, a process grows by gigabytes before
// anything is collected.

const defaultMaxBuffers = 256;

export class BufferPool<B extends ArrayBufferLike> {
  readonly #make: (bytes: number) => B;
  readonly #free: B[] = [];
  readonly #maxBuffers: number;

  /** `maxBuffers`: those that are kept although nobody needs them now. */
  constructor(make: (bytes: number) => B, maxBuffers: number = defaultMaxBuffers) {
    this.#make = make;
    this.#maxBuffers = maxBuffers;
  }

  /** At least so many bytes, and not many more. */
  take(bytes: number): B {
    let best = -1;
    for (const [place, { byteLength }] of this.#free.entries()) {
      if (byteLength < bytes || byteLength > 2 * bytes + 1024) continue;
      if (best < 0 || byteLength < (this.#free[best] as B).byteLength) best = place;
    }
    return best < 0 ? this.#make(bytes) : (this.#free.splice(best, 1)[0] as B);
  }

  give(buffer: B): void {
    this.#free.push(buffer);
    // Sizes change, where batches are padded for example: the oldest ones go.
    if (this.#free.length > this.#maxBuffers) this.#free.shift();
  }
}
