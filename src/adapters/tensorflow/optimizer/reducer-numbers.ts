// Reducers of gradients without a name are matched by their order of first use in a process set.

import type { HorovodContext } from '../../../context/context.ts';
import type { ProcessSet } from '../../../operations/process-set.ts';
import type { GradientRules } from './options.ts';

const counters = new WeakMap<HorovodContext, Map<number, number>>();

/** The next number of an optimizer or tape without a name. */
export function numberOfReducer(context: HorovodContext, processSet: ProcessSet | undefined): number {
  const numbers = counters.get(context) ?? new Map<number, number>();
  const set = processSet?.id ?? 0;
  const number = (numbers.get(set) ?? 0) + 1;
  counters.set(context, numbers.set(set, number));
  return number;
}

/** Names for what one reducer does. In a new context they begin anew: ranks may have come who have not counted before. */
export class RouteNames {
  readonly #rules: Pick<GradientRules, 'name' | 'processSet'>;
  #context: HorovodContext | undefined;
  #name = '';
  #made = 0;

  constructor(rules: Pick<GradientRules, 'name' | 'processSet'>) {
    this.#rules = rules;
  }

  next(context: HorovodContext): string {
    if (this.#context !== context) {
      const { name, processSet } = this.#rules;
      this.#context = context;
      this.#name = name ?? `DistributedOptimizer.${numberOfReducer(context, processSet)}`;
      this.#made = 0;
    }
    return `${this.#name}.${this.#made++}`;
  }
}
