// Which fields of an optimizer hold its state: lists of accumulators and single variables. Looking at every field of an optimizer
// takes longer than the rest of a commit, so what was found is kept as long as nothing speaks against it.

import * as tf from '@tensorflow/tfjs';
import { type Accumulators, accumulatorsOf, type Fields } from '../accumulators.ts';
import { numberFields } from '../optimizer-state.ts';

export class OptimizerFields {
  readonly #optimizer: tf.Optimizer;
  readonly #fields: Fields;
  #keys = 0;
  #lists: readonly string[] = [];
  #singles: readonly string[] = [];
  /** Variables that #singles had. */
  #variables: readonly unknown[] = [];
  /** Fields that may become one or the other: empty, or an empty list. */
  #others: readonly string[] = [];

  constructor(optimizer: tf.Optimizer) {
    this.#optimizer = optimizer;
    this.#fields = optimizer as unknown as Fields;
    this.#look();
  }

  /** Fields with lists of accumulators. */
  lists(): readonly string[] {
    if (!this.#isStillSo()) this.#look();
    return this.#lists;
  }

  /** Fields with one variable, as lists() found them. */
  get singles(): readonly string[] {
    return this.#singles;
  }

  list(field: string): Accumulators {
    return this.#fields[field] as Accumulators;
  }

  single(field: string): tf.Variable {
    return this.#fields[field] as tf.Variable;
  }

  /** Notes learning rate, count of steps and other numbers; NaN where there is none. */
  readNumbers(into: Float64Array): void {
    for (let i = 0; i < numberFields.length; i++) {
      const field = numberFields[i] as string;
      const value = field === 'iterations_' ? this.#optimizer.iterations : this.#fields[field];
      into[i] = typeof value === 'number' ? value : Number.NaN;
    }
  }

  #isStillSo(): boolean {
    const fields = this.#fields;
    if (Object.keys(fields).length !== this.#keys) return false;
    for (const field of this.#lists) if (!Array.isArray(fields[field])) return false;
    for (let i = 0; i < this.#singles.length; i++) {
      if (fields[this.#singles[i] as string] !== this.#variables[i]) return false;
    }
    for (const field of this.#others) if (!isEmpty(fields[field])) return false;
    return true;
  }

  #look(): void {
    const fields = this.#fields;
    const keys = Object.keys(fields);
    this.#keys = keys.length;
    this.#lists = accumulatorsOf(this.#optimizer).map(([field]) => field);
    this.#singles = keys.filter((field) => fields[field] instanceof tf.Variable);
    this.#variables = this.#singles.map((field) => fields[field]);
    this.#others = keys.filter((field) => !this.#lists.includes(field) && isEmpty(fields[field]));
  }
}

function isEmpty(value: unknown): boolean {
  return value == null || (Array.isArray(value) && value.length === 0);
}

/** As applyNumbers() takes them. */
export function numbersFrom(noted: Float64Array): Readonly<Record<string, number>> {
  const entries = numberFields.map((field, i) => [field, noted[i] as number] as const);
  return Object.fromEntries(entries.filter(([, value]) => !Number.isNaN(value)));
}
