// jax.valueAndGrad() with gradients reduced over all ranks.

import * as jax from '@jax-js/jax';
import { checkNames } from '../../operations/check-options.ts';
import { type BothForms, run, runSync } from '../both-forms.ts';
import { currentContext } from '../context.ts';
import { checkReduction, type ReductionOptions, reductionOptionNames } from '../gradient-options.ts';
import { keepResiduals, treeReducer } from './distributed-optimizer.ts';
import { parameterGuard } from './guarded-tree.ts';
import { TreeResiduals } from './tree-residuals.ts';

/** The options of jax.valueAndGrad(), and how the gradients are reduced. */
export interface ValueAndGradOptions<
  Argnums extends undefined | number | number[] = undefined,
  HasAux extends boolean = false,
> extends ReductionOptions {
  readonly argnums?: Argnums;
  readonly hasAux?: HasAux;
}

// biome-ignore lint/suspicious/noExplicitAny: jax-js declares its functions like this, and its inference needs the same
type Differentiable = (...args: any[]) => jax.JsTree<jax.Array>;
type Differentiated<
  F extends Differentiable,
  Argnums extends undefined | number | number[],
  HasAux extends boolean,
> = ReturnType<typeof jax.valueAndGrad<F, Argnums, HasAux>>;

/**
 * jax.valueAndGrad() with the gradients reduced over all ranks; the value is this rank's. The arguments are used up,
 * as by jax.valueAndGrad(). `fn` may be jitted.
 */
export function valueAndGrad<
  F extends Differentiable,
  const Argnums extends undefined | number | number[] = undefined,
  const HasAux extends boolean = false,
>(
  fn: F,
  options: ValueAndGradOptions<Argnums, HasAux> = {},
): (
  ...args: Parameters<Differentiated<F, Argnums, HasAux>>
) => Promise<ReturnType<Differentiated<F, Argnums, HasAux>>> {
  const { step, residuals } = differentiate(fn, options);
  const differentiated = (...args: Parameters<typeof step>) => run(step(...args));
  keepResiduals(differentiated, residuals);
  return differentiated;
}

/** The blocking form of valueAndGrad(). */
export function valueAndGradSync<
  F extends Differentiable,
  const Argnums extends undefined | number | number[] = undefined,
  const HasAux extends boolean = false,
>(fn: F, options: ValueAndGradOptions<Argnums, HasAux> = {}): Differentiated<F, Argnums, HasAux> {
  const { step, residuals } = differentiate(fn, options);
  const differentiated = (...args: Parameters<typeof step>) => runSync(step(...args));
  keepResiduals(differentiated, residuals);
  return differentiated as Differentiated<F, Argnums, HasAux>;
}

/** One step of both forms. */
function differentiate<
  F extends Differentiable,
  Argnums extends undefined | number | number[],
  HasAux extends boolean,
>(
  fn: F,
  options: ValueAndGradOptions<Argnums, HasAux>,
): {
  step(
    ...args: Parameters<Differentiated<F, Argnums, HasAux>>
  ): BothForms<ReturnType<Differentiated<F, Argnums, HasAux>>>;
  readonly residuals: TreeResiduals | undefined;
} {
  const what = 'valueAndGrad';
  checkNames(options, [...reductionOptionNames, 'argnums', 'hasAux'], what);
  const { argnums, hasAux, ...others } = options;
  const reduction = checkReduction(others, what);
  const residuals = TreeResiduals.of(reduction);
  const reduce = treeReducer(reduction, residuals);
  const check = parameterGuard(reduction);
  const differentiated = jax.valueAndGrad<F, Argnums, HasAux>(fn, {
    ...(argnums === undefined ? {} : { argnums }),
    ...(hasAux === undefined ? {} : { hasAux }),
  });
  return {
    *step(...args) {
      yield* check([argnums ?? 0].flat().map((place) => (args as unknown[])[place]));
      currentContext().steps.begin();
      const [value, grads] = differentiated(...args);
      const reduced = yield* reduce(grads);
      currentContext().reportStep();
      return [value, reduced] as ReturnType<Differentiated<F, Argnums, HasAux>>;
    },
    residuals,
  };
}
