// Blocks of elements that were read last, for formats whose files can only be read by whole blocks (row groups of Parquet). Lanes
// come back to the same block again and again; what was used longest ago goes when memory is short.

import type { ElementRecord } from '../formats/format.ts';

interface Kept {
  readonly elements: Promise<readonly ElementRecord[]>;
  bytes: number;
}

export class ElementBlocks {
  readonly #memoryBytes: number;
  /** The one used last at the end. */
  readonly #kept = new Map<string, Kept>();
  #bytes = 0;

  constructor(memoryBytes: number) {
    this.#memoryBytes = memoryBytes;
  }

  /** Reads a block unless it is kept, or is being read. */
  get(key: string, read: () => Promise<readonly ElementRecord[]>): Promise<readonly ElementRecord[]> {
    let kept = this.#kept.get(key);
    if (kept === undefined) {
      const made: Kept = { elements: read(), bytes: 0 };
      made.elements.then(
        (elements) => {
          made.bytes = bytesOf(elements);
          this.#bytes += made.bytes;
          this.#forget();
        },
        () => this.#kept.delete(key),
      );
      kept = made;
    } else this.#kept.delete(key);
    this.#kept.set(key, kept);
    return kept.elements;
  }

  #forget(): void {
    for (const [key, { bytes }] of this.#kept) {
      if (this.#bytes <= this.#memoryBytes || this.#kept.size === 1) return;
      // Blocks that are still being read have no size yet.
      if (bytes === 0) continue;
      this.#kept.delete(key);
      this.#bytes -= bytes;
    }
  }
}

/** What objects and tensors take beside their values. */
const overhead = 200;

/** Roughly. */
function bytesOf(elements: readonly ElementRecord[]): number {
  let bytes = 1;
  for (const element of elements) {
    for (const value of Object.values(element)) {
      bytes += overhead;
      if (typeof value === 'string') bytes += 2 * value.length;
      else if (value instanceof Uint8Array) bytes += value.byteLength;
      else if (typeof value === 'object' && 'data' in value) bytes += value.data.byteLength;
    }
  }
  return bytes;
}
