// Copies of records for users who take them as bytes. Memory of its own for each record would cost more than the copy, so that short
// records share it, as in Node's Buffer; a record that is kept keeps not more than 64 KiB of others.

import type { Allocate } from './stack.ts';

const sharedBytes = 64 * 1024;
/** Longer records do not share. */
const maxShared = sharedBytes / 4;

export class RecordCopies {
  readonly #allocate: Allocate;
  /** Bytes of the short records that have no memory yet. */
  #left = 0;
  #memory: ArrayBufferLike | undefined;
  #used = 0;
  #size = 0;

  /** `lengths`: of the records that will be copied, in any order; negative ones do not count. */
  constructor(lengths: Int32Array, allocate: Allocate) {
    this.#allocate = allocate;
    for (const length of lengths) if (length > 0 && length <= maxShared) this.#left += length;
  }

  copy(chunk: Uint8Array, start: number, length: number): Uint8Array {
    const copy = length > maxShared ? new Uint8Array(this.#allocate(length), 0, length) : this.#share(length);
    copy.set(chunk.subarray(start, start + length));
    return copy;
  }

  #share(length: number): Uint8Array {
    if (this.#memory === undefined || this.#used + length > this.#size) {
      this.#size = Math.min(sharedBytes, this.#left);
      this.#memory = this.#allocate(this.#size);
      this.#used = 0;
    }
    const copy = new Uint8Array(this.#memory, this.#used, length);
    this.#used += length;
    this.#left -= length;
    return copy;
  }
}
