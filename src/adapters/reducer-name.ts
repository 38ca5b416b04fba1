// The name of an optimizer, a tape or a valueAndGrad() that reduces gradients: the user's, or a number by the order of first
// use in its process set. It is the same on all ranks, and new in each context: ranks may have joined that did not count before.

import type { ProcessSet } from '../operations/process-set.ts';
import type { AdapterContext } from './context.ts';

export interface NameOptions {
  readonly name?: string | undefined;
  readonly processSet: ProcessSet | undefined;
}

export class ReducerName {
  readonly #prefix: string;
  readonly #options: NameOptions;
  #context: AdapterContext | undefined;
  #name = '';
  #made = 0;

  constructor(prefix: string, options: NameOptions) {
    this.#prefix = prefix;
    this.#options = options;
  }

  in(context: AdapterContext): string {
    if (this.#context !== context) {
      const { name, processSet } = this.#options;
      this.#context = context;
      this.#name = name ?? `${this.#prefix}.${context.nextReducer(processSet)}`;
      this.#made = 0;
    }
    return this.#name;
  }

  /** `<name>.0`, `<name>.1` … */
  next(context: AdapterContext): string {
    return `${this.in(context)}.${this.#made++}`;
  }
}
