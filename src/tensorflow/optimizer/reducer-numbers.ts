// Reducers of gradients without a name are matched by their order of first use in a process set.

import type { HorovodContext } from '../../context/context.ts';
import type { ProcessSet } from '../../context/process-set.ts';

const counters = new WeakMap<HorovodContext, Map<number, number>>();

/** The next number of an optimizer or tape without a name. */
export function numberOfReducer(context: HorovodContext, processSet: ProcessSet | undefined): number {
  const numbers = counters.get(context) ?? new Map<number, number>();
  const set = processSet?.id ?? 0;
  const number = (numbers.get(set) ?? 0) + 1;
  counters.set(context, numbers.set(set, number));
  return number;
}
