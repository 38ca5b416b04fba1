// The tunable settings as adapters see them (AdapterContext in adapters/context.ts): how gradients are reduced.

import type { Tuned } from '../engine/autotune/tuned.ts';
import type { Transport } from '../transport/transport.ts';

export class GradientSettings {
  readonly #tuned: Tuned;
  readonly #transport: Transport;

  constructor(tuned: Tuned, transport: Transport) {
    this.#tuned = tuned;
    this.#transport = transport;
  }

  get version(): number {
    return this.#tuned.version;
  }

  get bucketBytes(): number {
    return this.#tuned.bucketBytes;
  }

  shouldOverlap(): boolean {
    const { background } = this.#transport;
    if (background === 'none') return false;
    this.#tuned.hasBuckets = true;
    return this.#tuned.overlap === 'auto' ? background === 'spare' : this.#tuned.overlap === 'always';
  }

  chooseCompressor(names: readonly string[]): string | undefined {
    this.#tuned.compressions = names;
    return this.#tuned.compression;
  }
}
