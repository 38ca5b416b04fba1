// Runs plans, composite or not. A composite (plan.ts) is a generator: each `yield` is one agreed request, so it works on
// every transport, as a promise or blocking. The first request carries the description of the whole collective, on which
// the ranks must agree; the others follow from it, under names derived from its name.

import { compositeMark, partKey } from '../engine/request.ts';
import { HorovodError } from '../errors.ts';
import type { TransportOperation } from '../transport/transport.ts';
import type { CollectiveOptions } from './options.ts';
import type { Composite, Plan } from './plan.ts';
import type { OperationRunner } from './runner.ts';

/** Runs a plan, composite or not. */
export function runPlan<R>(
  context: OperationRunner,
  plan: Plan<R>,
  options: CollectiveOptions,
  what: string,
  name?: string,
): Promise<R> {
  if (plan.composite === undefined) return context.run(plan, options, what, name);
  return runComposite(context, plan, plan.composite(), options, what, name);
}

async function runComposite<R>(
  context: OperationRunner,
  plan: Plan<R>,
  composite: Composite<R>,
  options: CollectiveOptions,
  what: string,
  name: string | undefined,
): Promise<R> {
  const next = partsOf(plan, options, what, name);
  const first = composite.next();
  if (first.done === true) return first.value;
  await context.run(...next(first.value));
  for (;;) {
    // All ranks know when the promise rejects; what is thrown before there is a promise, only this rank knows.
    const going = orFail(context, what, () => {
      const step = composite.next();
      return step.done === true ? step : { done: false as const, ended: context.run(...next(step.value)) };
    });
    if (going.done === true) return going.value;
    await going.ended;
  }
}

/** The blocking form of runPlan(). */
export function runPlanSync<R>(
  context: OperationRunner,
  plan: Plan<R>,
  options: CollectiveOptions,
  what: string,
  name?: string,
): R {
  if (plan.composite === undefined) return context.runSync(plan, options, what, name);
  const next = partsOf(plan, options, what, name);
  const composite = plan.composite();
  const first = composite.next();
  if (first.done === true) return first.value;
  context.runSync(...next(first.value));
  return finishSync(context, composite, next, what);
}

/** Begins at once; the function returned blocks until the result is there. It must be called, once. */
export function startPlan<R>(
  context: OperationRunner,
  plan: Plan<R>,
  options: CollectiveOptions,
  what: string,
  name?: string,
): () => R {
  if (plan.composite === undefined) return context.start(plan, options, what, name);
  const next = partsOf(plan, options, what, name);
  const composite = plan.composite();
  const first = composite.next();
  if (first.done === true) return () => first.value;
  const wait = context.start(...next(first.value));
  return () => {
    wait();
    return finishSync(context, composite, next, what);
  };
}

/** The first part is done. */
function finishSync<R>(context: OperationRunner, composite: Composite<R>, next: NextPart, what: string): R {
  for (;;) {
    const step = orFail(context, what, () => composite.next());
    if (step.done === true) return step.value;
    context.runSync(...next(step.value));
  }
}

/** The other ranks wait for parts that will not come: the job ends with this reason. */
function orFail<T>(context: OperationRunner, what: string, go: () => T): T {
  try {
    return go();
  } catch (error) {
    const { rank } = context.world;
    const reason = `rank ${rank}: ${what} failed after some of its parts: ${(error as Error)?.message ?? error}`;
    const failure = HorovodError.is(error)
      ? error
      : new HorovodError('ERR_HVD_ABORTED', reason, { rank, cause: error });
    context.fail(failure);
    throw error;
  }
}

/** The arguments of runner.run() for a part. */
type NextPart = (
  operations: readonly TransportOperation[],
) => [plan: Plan<void>, options: CollectiveOptions, what: string, name: string | undefined];

/** The parts, one after the other. The first is numbered or named like any collective, the others after the first. */
function partsOf<R>(
  plan: Plan<R>,
  options: CollectiveOptions,
  what: string,
  name: string | undefined,
): NextPart {
  const result = () => undefined;
  let key = '';
  let part = 0;
  return (operations) => {
    part++;
    if (part > 1) {
      const later = { kind: plan.kind, operands: [], operations, detail: compositeMark, result };
      return [later, options, what, partKey(key, part)];
    }
    const onKey = (given: string) => {
      key = given;
    };
    const detail = `${compositeMark}${plan.detail ?? ''}`;
    return [{ ...plan, composite: undefined, operations, detail, onKey, result }, options, what, name];
  };
}
