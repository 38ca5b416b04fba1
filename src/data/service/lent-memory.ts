// The memory of batches that have arrived, which the loop may give back for later ones: new memory for each batch keeps the garbage
// collector busy. All columns of a batch are views of one piece of memory, so that all of them have to be given back.

import { isRecord, isTensor } from '../execute/stack.ts';

export class LentMemory {
  /** Columns that were not given back yet. */
  readonly #columns = new WeakMap<ArrayBufferLike, Set<ArrayBufferView>>();

  /** Tensors alone can be given back: a batch with other values that lie in `memory` keeps it. */
  lend(batch: unknown, memory: ArrayBufferLike): void {
    const columns = new Set<ArrayBufferView>();
    for (const value of valuesOf(batch)) {
      if (isTensor(value)) {
        if (value.data.buffer === memory) columns.add(value.data);
      } else if (typeof value === 'object' && value !== null) return;
    }
    if (columns.size > 0) this.#columns.set(memory, columns);
  }

  /** Memory of which nothing is needed any more, if this was the last. */
  giveBack(batch: unknown): ArrayBuffer | undefined {
    for (const value of valuesOf(batch)) {
      if (!isTensor(value)) continue;
      const { buffer } = value.data;
      const columns = this.#columns.get(buffer);
      if (columns?.delete(value.data) !== true || columns.size > 0) continue;
      this.#columns.delete(buffer);
      return buffer as ArrayBuffer;
    }
    return undefined;
  }
}

function valuesOf(batch: unknown): readonly unknown[] {
  if (isTensor(batch)) return [batch];
  return isRecord(batch) ? Object.values(batch) : [batch];
}
