// Prepared (persistent) allreduce: agreed, planned and registered once, then each run costs only moving the
// bytes. It works in place on the buffers given, like MPI-4's persistent collectives.

import { ObservedOperation, waitingPeriodMs } from '../engine/observer.ts';
import { fromCaller, HorovodError } from '../errors.ts';
import type { TypedArray } from '../tensor/dtype.ts';
import { operandOf, type TensorLike } from '../tensor/tensor.ts';
import type { Round } from '../transport/transport.ts';
import { planAllreduce } from './collectives/allreduce.ts';
import { withOwnMemory } from './collectives/allreduce-compressed.ts';
import { type CompiledRunner, finishSlowly } from './compiled/slow-way.ts';
import { runPlan, runPlanSync, startPlan } from './composite.ts';
import { type AllreduceOptions, type CollectiveOptions, labelOf } from './options.ts';
import { describePlan, fingerprintOfPlan, type Plan } from './plan.ts';

export interface PreparedCollective<T> {
  /** Reduces the buffers as they are now, in place, and resolves to them. */
  run(options?: Pick<CollectiveOptions, 'signal' | 'timeoutMs'>): Promise<T>;
  runSync(): T;
  /**
   * Begins now and goes on in the background, where the transport has a thread for it (shm); waitSync() blocks until
   * the buffers are reduced. Only one run at a time, and until then the buffers belong to it.
   */
  start(): StartedCollective<T>;
  /** Afterwards it cannot run any more. Not collective; calling it twice is fine. */
  release(): void;
}

export interface StartedCollective<T> {
  /** Must be called, once. */
  waitSync(): T;
}

/** Collective: every rank prepares the same shapes, in the same order or under the same name. */
export async function prepareAllreduce<T extends TensorLike | readonly TensorLike[]>(
  context: CompiledRunner,
  xs: T,
  options: AllreduceOptions = {},
): Promise<PreparedCollective<T>> {
  const { agreement, what, key, finish } = planPrepared(context, xs, options);
  try {
    await context.run(agreement, options, what, `${key}.prepare`);
  } catch (error) {
    throw uncounted(context, options, what, fromCaller(error));
  }
  return finish();
}

/** The blocking form of prepareAllreduce(). */
export function prepareAllreduceSync<T extends TensorLike | readonly TensorLike[]>(
  context: CompiledRunner,
  xs: T,
  options: AllreduceOptions = {},
): PreparedCollective<T> {
  const { agreement, what, key, finish } = planPrepared(context, xs, options);
  try {
    context.runSync(agreement, options, what, `${key}.prepare`);
  } catch (error) {
    throw uncounted(context, options, what, error);
  }
  return finish();
}

interface Preparation<T> {
  readonly agreement: Plan<void>;
  readonly what: string;
  readonly key: string;
  finish(): PreparedCollective<T>;
}

function planPrepared<T extends TensorLike | readonly TensorLike[]>(
  context: CompiledRunner,
  xs: T,
  options: AllreduceOptions,
): Preparation<T> {
  const isGrouped = Array.isArray(xs);
  const list = (isGrouped ? xs : [xs]) as readonly TensorLike[];
  const what = labelOf('prepareAllreduce', options);
  const members = context.membersOf(options.processSet, what);
  const call = {
    xs: list,
    isGrouped,
    options: { ...withOwnMemory(context, options, list.length, what), inPlace: true },
    members,
    what,
  };
  const planOnce = () => planAllreduce(call);
  const plan = planOnce();
  const key = `horovod.prepared.${options.processSet?.id ?? 0}.${options.name ?? context.nextPrepared(options.processSet, what)}`;
  const agreement: Plan<void> = {
    ...plan,
    kind: 'prepareAllreduce',
    operations: [{ kind: 'barrier' }],
    composite: undefined,
    result: () => undefined,
  };
  const finish = () => preparedOf(context, xs, list, options, { plan, planOnce, what, key });
  return { agreement, what, key, finish };
}

/** A rank that has joined has not counted this one. */
function uncounted(
  context: CompiledRunner,
  options: AllreduceOptions,
  what: string,
  error: unknown,
): unknown {
  const isJoined = HorovodError.is(error) && error.code === 'ERR_HVD_JOIN_UNSUPPORTED';
  if (isJoined && options.name === undefined) context.returnPrepared(options.processSet, what);
  return error;
}

function preparedOf<T extends TensorLike | readonly TensorLike[]>(
  context: CompiledRunner,
  xs: T,
  list: readonly TensorLike[],
  options: AllreduceOptions,
  {
    plan,
    planOnce,
    what,
    key,
  }: { plan: Plan<unknown>; planOnce(): Plan<unknown>; what: string; key: string },
): PreparedCollective<T> {
  const arrays = list.map((x) => operandOf(x, what).data);
  const lengths = arrays.map((array) => array.length);
  const isPlain = plan.isRepeatable === true;
  const common = { processSet: options.processSet, timeoutMs: options.timeoutMs };
  let isReleased = false;
  const check = () => {
    if (isReleased)
      throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', `${what}: it was released and cannot run any more.`);
    for (let i = 0; i < arrays.length; i++) {
      if ((arrays[i] as TypedArray).length !== lengths[i]) throw changedError(what, i);
    }
  };
  // Most compressors make new buffers each time; otherwise the plan stays good.
  const currentPlan = () => (isPlain ? plan : planOnce());
  const quickRun = isPlain ? prepareQuickRun(context, plan, options, key) : undefined;

  return {
    async run(limits = {}) {
      check();
      try {
        await runPlan(context, currentPlan(), { ...common, ...limits }, what, key);
      } catch (error) {
        throw fromCaller(error);
      }
      return xs;
    },
    runSync() {
      check();
      if (quickRun === undefined || !quickRun()) runPlanSync(context, currentPlan(), common, what, key);
      return xs;
    },
    start() {
      check();
      const wait = startPlan(context, currentPlan(), common, what, key);
      return {
        waitSync() {
          wait();
          return xs;
        },
      };
    },
    release() {
      isReleased = true;
    },
  };
}

/** A function that runs the plan and says true, or false if it must go the common way now. */
function prepareQuickRun(
  context: CompiledRunner,
  plan: Plan<unknown>,
  options: AllreduceOptions,
  key: string,
): (() => boolean) | undefined {
  const { processSet } = options;
  const channel = context.quickChannel(processSet);
  const quick = channel?.group.quick;
  const [operation] = plan.operations;
  if (
    quick === undefined ||
    channel === undefined ||
    operation === undefined ||
    plan.operations.length !== 1 ||
    plan.composite !== undefined
  ) {
    return undefined;
  }
  if (options.timeoutMs !== undefined) return undefined;
  const description = describePlan(plan, key);
  const { low, high } = fingerprintOfPlan(plan, description, context.world.rank);
  const round: Round = { fingerprintLow: low >>> 0, fingerprintHigh: high >>> 0, operation };
  const run = quick.prepareRun(round, {
    rounds: [round],
    passive: false,
    timeoutMs: context.limits.operationTimeoutMs,
    stallAfterMs: waitingPeriodMs,
    label: key,
  });
  const observed = ObservedOperation.of(description, processSet?.id ?? 0);
  return () => {
    if (context.quickChannel(processSet) !== channel) return false;
    channel.beginQuick(observed, quick);
    const status = run();
    if (status === 0) channel.endQuick(observed, quick);
    else {
      const { sequence } = observed;
      finishSlowly(context, channel, quick, status, { plan, options: { processSet }, key, sequence });
    }
    return true;
  };
}

function changedError(what: string, place: number): HorovodError {
  return new HorovodError(
    'ERR_HVD_DETACHED',
    `${what}: array ${place} has changed its length: its buffer was transferred, resized, or its WebAssembly memory grew. ` +
      'Prepare again with the new arrays.',
  );
}
