// Fields of a state: numbers, texts, lists, plain objects. A commit keeps a structured clone of each. Fields that are Resumable
// (samplers, datasets) stay the same objects, and only their place is kept. Typed arrays are kept by array-part.ts.

import { isDeepStrictEqual } from 'node:util';
import { broadcastObject } from '../context/default/default-collectives.ts';
import { rank } from '../context/default/default-membership.ts';
import { resumableOf } from '../data/resumable.ts';
import { HorovodError } from '../errors.ts';
import { describe } from '../tensor/tensor.ts';
import type { StatePart } from './runner.ts';

type Values = Record<string, unknown>;

export class FieldsPart implements StatePart {
  readonly #owner: Values;
  readonly #names: readonly string[];
  readonly hasSlots = true;
  /** By slot, then by place in #names. */
  readonly #kept: unknown[][] = [];

  /** `owner` has the fields as properties. */
  constructor(owner: object, names: readonly string[]) {
    this.#owner = owner as Values;
    this.#names = names;
  }

  save(slot = 0): void {
    const [owner, names] = [this.#owner, this.#names];
    for (const name of names) resumableOf(owner[name])?.agree?.();
    // Cloning may fail: what was kept must then still be there as a whole.
    const isPlain = names.every(
      (name) => isPlainValue(owner[name]) || resumableOf(owner[name]) !== undefined,
    );
    const kept = isPlain ? (this.#kept[slot] ?? []) : [];
    for (let i = 0; i < names.length; i++) kept[i] = keptOf(owner[names[i] as string]);
    this.#kept[slot] = kept;
  }

  restore(slot = 0): void {
    const kept = this.#kept[slot] as unknown[];
    this.#names.forEach((name, i) => {
      this.#set(name, structuredClone(kept[i]));
    });
  }

  async sync(root: number): Promise<void> {
    if (rank() === root) for (const name of this.#names) await resumableOf(this.#owner[name])?.prepare?.();
    this.#apply(await broadcastObject(this.#current(), root, { name: 'elastic.fields' }));
  }

  digest(): string {
    return JSON.stringify(this.#current(), (_, value: unknown) =>
      typeof value === 'bigint' ? `${value}n` : value,
    );
  }

  /** A clone of all fields. */
  #current(): Values {
    return Object.fromEntries(this.#names.map((name) => [name, keptOf(this.#owner[name])]));
  }

  #apply(values: Values): void {
    for (const [name, value] of Object.entries(values)) this.#set(name, value);
  }

  #set(name: string, value: unknown): void {
    const resumable = resumableOf(this.#owner[name]);
    if (resumable === undefined) this.#owner[name] = value;
    else resumable.resumeAt(value);
  }
}

/** What is kept of a field: a clone, or the place of a sampler. Most fields are numbers, and structuredClone() is slow. */
function keptOf(value: unknown): unknown {
  if (isPlainValue(value)) return value;
  const resumable = resumableOf(value);
  // Its place may be undefined: it has none yet.
  return resumable === undefined ? cloned(value) : resumable.place();
}

/** Rejects what a clone would lose: functions, objects of classes. `keeper`: the state, for the error. */
export function checkField(name: string, value: unknown, keeper: string): void {
  if (resumableOf(value) !== undefined) return;
  let isKept = false;
  try {
    isKept = isDeepStrictEqual(structuredClone(value), value);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
  }
  if (isKept) return;
  throw new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `${keeper}: field ${name} is ${describe(value)}, which cannot be saved. Fields are numbers, texts, lists, plain objects, typed ` +
      'arrays, samplers and datasets. Models, variables and optimizers belong in the state of their framework: KerasState, TensorFlowState, JaxState.',
  );
}

function cloned(value: unknown): unknown {
  try {
    return structuredClone(value);
  } catch (error) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `a field of the state cannot be saved: ${error instanceof Error ? error.message : String(error)}`,
      { cause: error },
    );
  }
}

function isPlainValue(value: unknown): boolean {
  return (
    (typeof value !== 'object' && typeof value !== 'function' && typeof value !== 'symbol') || value === null
  );
}
