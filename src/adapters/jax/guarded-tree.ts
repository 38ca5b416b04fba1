// Parameters of jax-js as the divergence guard sees them: the leaves of a tree. Nothing is used up.

import * as jax from '@jax-js/jax';
import { type BothForms, wait } from '../both-forms.ts';
import { currentContext, groupSize } from '../context.ts';
import { DivergenceGuard, type GuardedWeights } from '../divergence/divergence-guard.ts';
import { summarize } from '../divergence/report.ts';
import type { Reduction } from '../gradient-options.ts';
import { ReducerName } from '../reducer-name.ts';
import { readArray, readArraySync } from './arrays.ts';
import { type Leaf, takeApart } from './trees.ts';

/** Compares the parameters of the ranks now and then. Made once for each optimizer; to be called in every step. */
export function parameterGuard(reduction: Reduction): (params: unknown) => BothForms<void> {
  const { what, processSet } = reduction;
  const name = new ReducerName('jax.parameters', reduction);
  const guard = new DivergenceGuard({
    what,
    processSet,
    howToBroadcast: 'write `params = await hvd.broadcastParameters(params, 0)` before the first step',
  });
  return function* check(params) {
    if (params === undefined || groupSize(reduction) === 1) return;
    yield* guard.step(name.in(currentContext()), () => guardedTree(params));
  };
}

function guardedTree(params: unknown): GuardedWeights {
  const leaves = () => takeApart(params, 'params').leaves.flatMap(arrayOf);
  return {
    get names() {
      return leaves().map(({ path }) => path || 'params');
    },
    backend: String(jax.defaultDevice()),
    broadcasts: undefined,
    *summarize(maxWords) {
      return yield* wait(
        () => leaves().map(({ array }) => summarize(readArraySync(array.ref).data, maxWords)),
        async () => {
          const read = leaves().map(({ array }) => readArray(array.ref));
          return (await Promise.all(read)).map(({ data }) => summarize(data, maxWords));
        },
      );
    },
  };
}

function arrayOf({ path, value }: Leaf): { path: string; array: jax.Array }[] {
  return typeof value === 'number' ? [] : [{ path, array: value }];
}
