// Typed arrays of a state that are updated in place. A commit copies them into memory of their own, which is kept for that: the
// price is one copy per commit, and the memory twice.

import { createHash } from 'node:crypto';
import { broadcast, broadcastObject } from '../context/default/default-collectives.ts';
import type { TypedArray, TypedArrayConstructor } from '../tensor/dtype.ts';
import { bytesOf } from '../tensor/tensor.ts';
import type { StatePart, SyncPlan } from './runner.ts';

type Arrays = Record<string, TypedArray>;

interface Kept {
  /** The user's array at the commit: going back fills the same one. */
  readonly array: TypedArray;
  readonly copy: Uint8Array;
}

export class ArrayPart implements StatePart {
  readonly #owner: Arrays;
  readonly #names: readonly string[];
  readonly hasSlots = true;
  /** By slot. */
  readonly #kept: Map<string, Kept>[] = [];

  /** `owner` has the arrays as properties. */
  constructor(owner: object, names: readonly string[]) {
    this.#owner = owner as Arrays;
    this.#names = names;
  }

  save(slot = 0): void {
    if (this.#names.length === 0) return;
    const kept = this.#kept[slot] ?? new Map<string, Kept>();
    this.#kept[slot] = kept;
    for (const [name, array] of this.#arrays()) {
      const old = kept.get(name)?.copy;
      const copy = old?.byteLength === array.byteLength ? old : new Uint8Array(array.byteLength);
      copy.set(bytesOf(array));
      kept.set(name, { array, copy });
    }
  }

  restore(slot = 0): void {
    for (const [name, { array, copy }] of this.#kept[slot] ?? []) {
      bytesOf(array).set(copy);
      this.#owner[name] = array;
    }
  }

  async sync(root: number, { lacking }: SyncPlan): Promise<void> {
    if (lacking.length === 0 || this.#names.length === 0) return;
    const own = this.#arrays().map(([name, array]) => ({
      name,
      kind: array.constructor.name,
      length: array.length,
    }));
    const wanted = await broadcastObject(own, root, { name: 'elastic.arrays' });
    for (const { name, kind, length } of wanted) {
      const array = this.#owner[name];
      if (array === undefined || array.constructor.name !== kind || array.length !== length) {
        this.#owner[name] = newArray(kind, length);
      }
      await broadcast(bytesOf(this.#owner[name] as TypedArray), root, {
        name: `elastic.${name}`,
        inPlace: true,
      });
    }
  }

  digest(): string {
    const hash = createHash('sha256');
    for (const [name, array] of this.#arrays()) hash.update(name).update(bytesOf(array));
    return hash.digest('hex');
  }

  #arrays(): [name: string, array: TypedArray][] {
    return this.#names.map((name) => [name, this.#owner[name] as TypedArray]);
  }
}

export function isTypedArray(value: unknown): value is TypedArray {
  return ArrayBuffer.isView(value) && !(value instanceof DataView);
}

function newArray(kind: string, length: number): TypedArray {
  if (kind === 'Buffer') return Buffer.alloc(length);
  const make = (globalThis as unknown as Record<string, TypedArrayConstructor>)[
    kind
  ] as TypedArrayConstructor;
  return new make(length);
}
