// Fields of a state: numbers, texts, lists, plain objects. A commit keeps a structured clone of each. Fields that are Resumable
// (samplers) stay the same objects, and only their place is kept. Typed arrays are kept by array-part.ts.

import { isDeepStrictEqual } from 'node:util';
import { broadcastObject } from '../context/default/default-collectives.ts';
import { HorovodError } from '../errors.ts';
import { describe } from '../tensor/tensor.ts';
import { resumableOf } from './resumable.ts';
import type { StatePart } from './runner.ts';

type Values = Record<string, unknown>;

export class FieldsPart implements StatePart {
  readonly #owner: Values;
  readonly #names: readonly string[];
  #kept: Values = {};

  /** `owner` has the fields as properties. */
  constructor(owner: object, names: readonly string[]) {
    this.#owner = owner as Values;
    this.#names = names;
  }

  save(): void {
    this.#kept = this.#current();
  }

  restore(): void {
    this.#apply(structuredClone(this.#kept));
  }

  async sync(root: number): Promise<void> {
    this.#apply(await broadcastObject(this.#current(), root, { name: 'elastic.fields' }));
  }

  digest(): string {
    return JSON.stringify(this.#current(), (_, value: unknown) =>
      typeof value === 'bigint' ? `${value}n` : value,
    );
  }

  /** A clone of all fields. */
  #current(): Values {
    const values: Values = {};
    for (const name of this.#names) {
      const value = this.#owner[name];
      const resumable = resumableOf(value);
      // Most fields are numbers, and structuredClone() takes as long as the rest of a commit.
      values[name] = resumable?.place() ?? (isPlainValue(value) ? value : cloned(value));
    }
    return values;
  }

  #apply(values: Values): void {
    for (const [name, value] of Object.entries(values)) {
      const resumable = resumableOf(this.#owner[name]);
      if (resumable === undefined) this.#owner[name] = value;
      else resumable.resumeAt(value);
    }
  }
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
      'arrays and samplers. Models, variables and optimizers belong in the state of their framework: KerasState, TensorFlowState, JaxState.',
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
  return value === null || ['number', 'string', 'boolean', 'undefined', 'bigint'].includes(typeof value);
}
