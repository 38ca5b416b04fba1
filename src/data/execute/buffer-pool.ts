// Shared memory that is used again. The garbage collector of a thread hardly notices shared memory, which other threads may still see:
// without a pool, a process grows by gigabytes before anything is collected.

/** Buffers that are kept although nobody needs them now. */
const maxBuffers = 256;

export class BufferPool {
  readonly #free: SharedArrayBuffer[] = [];

  /** At least so many bytes, and not many more. */
  take(bytes: number): SharedArrayBuffer {
    let best = -1;
    for (const [place, { byteLength }] of this.#free.entries()) {
      if (byteLength < bytes || byteLength > 2 * bytes + 1024) continue;
      if (best < 0 || byteLength < (this.#free[best] as SharedArrayBuffer).byteLength) best = place;
    }
    return best < 0 ? new SharedArrayBuffer(bytes) : (this.#free.splice(best, 1)[0] as SharedArrayBuffer);
  }

  give(buffer: SharedArrayBuffer): void {
    this.#free.push(buffer);
    // Sizes change, where batches are padded for example: the oldest ones go.
    if (this.#free.length > maxBuffers) this.#free.shift();
  }
}
