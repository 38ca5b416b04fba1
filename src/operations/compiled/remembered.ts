// What a process set remembers of the calls before: compiled operations, by name, or, without one, by kind and size. Two
// generations of limited size: what was not used since the younger one was last empty is forgotten. So names that are new
// in every step cost no memory.

import type { CompiledOperation } from './compiled-operation.ts';

/** A step of a large model has some hundred tensors. */
const maxPerGeneration = 2048;

export class Remembered {
  #young = new Map<string | number, CompiledOperation>();
  #old = new Map<string | number, CompiledOperation>();
  readonly #max: number;

  constructor(max: number = maxPerGeneration) {
    this.#max = max;
  }

  get size(): number {
    return this.#young.size + this.#old.size;
  }

  get(place: string | number): CompiledOperation | undefined {
    const young = this.#young.get(place);
    if (young !== undefined) return young;
    const old = this.#old.get(place);
    if (old !== undefined) this.set(place, old);
    return old;
  }

  /** In place of what was there. */
  set(place: string | number, operation: CompiledOperation): void {
    if (this.#young.size >= this.#max) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(place, operation);
  }
}
