// Runs plans, composite or not. A composite (plan.ts) is a generator: each `yield` is one agreed request, so it works on
// every transport, as a promise or blocking. The first request carries the description of the whole collective, on which
// the ranks must agree; the others follow from it, under names derived from its name.

import { compositeMark, partKey } from '../engine/description.ts';
import { HorovodError } from '../errors.ts';
import type { TransportOperation } from '../transport/transport.ts';
import type { Composite, Submission } from './plan.ts';
import type { OperationRunner } from './runner.ts';

export function runPlan<R>(runner: OperationRunner, ...call: Submission<R>): Promise<R> {
  const { composite } = call[0];
  return composite === undefined ? runner.run(...call) : runComposite(runner, composite(), call);
}

async function runComposite<R>(
  runner: OperationRunner,
  composite: Composite<R>,
  call: Submission<R>,
): Promise<R> {
  const next = partsOf(call);
  const first = composite.next();
  if (first.done === true) return first.value;
  await runner.run(...next(first.value));
  for (;;) {
    // All ranks know when the promise rejects; what is thrown before there is a promise, only this rank knows.
    const going = orFail(runner, call[2], () => {
      const step = composite.next();
      return step.done === true ? step : { done: false as const, ended: runner.run(...next(step.value)) };
    });
    if (going.done === true) return going.value;
    await going.ended;
  }
}

/** The blocking form of runPlan(). */
export function runPlanSync<R>(runner: OperationRunner, ...call: Submission<R>): R {
  const [plan, , what] = call;
  if (plan.composite === undefined) return runner.runSync(...call);
  const composite = plan.composite();
  const next = partsOf(call);
  const first = composite.next();
  if (first.done === true) return first.value;
  runner.runSync(...next(first.value));
  return finishSync(runner, composite, next, what);
}

/** Begins at once; the function returned blocks until the result is there. It must be called, once. */
export function startPlan<R>(runner: OperationRunner, ...call: Submission<R>): () => R {
  const [plan, , what] = call;
  if (plan.composite === undefined) return runner.start(...call);
  const composite = plan.composite();
  const next = partsOf(call);
  const first = composite.next();
  if (first.done === true) return () => first.value;
  const wait = runner.start(...next(first.value));
  return () => {
    wait();
    return finishSync(runner, composite, next, what);
  };
}

/** The first part is done. */
function finishSync<R>(runner: OperationRunner, composite: Composite<R>, next: NextPart, what: string): R {
  for (;;) {
    const step = orFail(runner, what, () => composite.next());
    if (step.done === true) return step.value;
    runner.runSync(...next(step.value));
  }
}

/** The other ranks wait for parts that will not come: the job ends with this reason. */
function orFail<T>(runner: OperationRunner, what: string, go: () => T): T {
  try {
    return go();
  } catch (error) {
    const { rank } = runner.world;
    const reason = `rank ${rank}: ${what} failed after some of its parts: ${(error as Error)?.message ?? error}`;
    const failure = HorovodError.is(error)
      ? error
      : new HorovodError('ERR_HVD_ABORTED', reason, { rank, cause: error });
    runner.fail(failure);
    throw error;
  }
}

type NextPart = (operations: readonly TransportOperation[]) => Submission<void>;

/** The parts, one after the other. The first is numbered or named like any collective, the others after the first. */
function partsOf<R>([plan, options, what, name]: Submission<R>): NextPart {
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
