// Composites: collectives that are made of several. Each `yield` of the generator is one agreed request of the plane
// operations it gives, and the generator goes on when they are done; so it works on every plane, as a promise or
// blocking. The first request carries the description of the whole, and with it what the ranks must agree on; the
// others follow from it under names of their own.

import { compositeMark, partKey } from '../engine/request.ts';
import type { PlaneOperation } from '../plane/plane.ts';
import type { HorovodContext } from './context.ts';
import type { CollectiveOptions } from './options.ts';
import type { Plan } from './plans.ts';

/** The operations of one request; they are done, with their outputs filled in, when the generator is resumed. */
export type Composite<R> = Generator<readonly PlaneOperation[], R, void>;

/** Runs a plan, composite or not. */
export function runPlan<R>(
  context: HorovodContext,
  plan: Plan<R>,
  options: CollectiveOptions,
  what: string,
  name?: string,
): Promise<R> {
  if (plan.composite === undefined) return context.run(plan, options, what, name);
  return runComposite(context, plan, plan.composite(), options, what, name);
}

async function runComposite<R>(
  context: HorovodContext,
  plan: Plan<R>,
  composite: Composite<R>,
  options: CollectiveOptions,
  what: string,
  name: string | undefined,
): Promise<R> {
  const key = keyOf(context, options, what, name);
  let step = composite.next();
  for (let part = 1; step.done !== true; part++) {
    await context.run(partOf(plan, step.value, part), options, what, partKey(key, part));
    step = composite.next();
  }
  return step.value;
}

/** The blocking form of runPlan(). */
export function runPlanSync<R>(
  context: HorovodContext,
  plan: Plan<R>,
  options: CollectiveOptions,
  what: string,
  name?: string,
): R {
  if (plan.composite === undefined) return context.runSync(plan, options, what, name);
  const key = keyOf(context, options, what, name);
  return finishSync(context, plan, plan.composite(), options, what, key, 1);
}

/** Begins at once; the function returned waits, blocking, and gives the result. It must be called, once. */
export function startPlan<R>(
  context: HorovodContext,
  plan: Plan<R>,
  options: CollectiveOptions,
  what: string,
  name?: string,
): () => R {
  if (plan.composite === undefined) return context.start(plan, options, what, name);
  const key = keyOf(context, options, what, name);
  const composite = plan.composite();
  const step = composite.next();
  if (step.done === true) return () => step.value;
  const wait = context.start(partOf(plan, step.value, 1), options, what, key);
  return () => {
    wait();
    return finishSync(context, plan, composite, options, what, key, 2);
  };
}

function finishSync<R>(
  context: HorovodContext,
  plan: Plan<R>,
  composite: Composite<R>,
  options: CollectiveOptions,
  what: string,
  key: string,
  firstPart: number,
): R {
  let step = composite.next();
  for (let part = firstPart; step.done !== true; part++) {
    context.runSync(partOf(plan, step.value, part), options, what, partKey(key, part));
    step = composite.next();
  }
  return step.value;
}

function keyOf(
  context: HorovodContext,
  options: CollectiveOptions,
  what: string,
  name: string | undefined,
): string {
  return name ?? options.name ?? context.nextUnnamedKey(options.processSet, what);
}

function partOf<R>(plan: Plan<R>, operations: readonly PlaneOperation[], part: number): Plan<void> {
  const result = () => undefined;
  if (part === 1) {
    return {
      ...plan,
      composite: undefined,
      operations,
      detail: `${compositeMark}${plan.detail ?? ''}`,
      result,
    };
  }
  return { kind: plan.kind, operands: [], operations, detail: compositeMark, result };
}
