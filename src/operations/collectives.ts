// The collectives as functions of a context: each plans its request (plans.ts) and runs it, as a promise or
// blocking. index.ts binds them to the default context.

import type { TensorLike } from '../tensor/tensor.ts';
import { runPlan, runPlanSync } from './composite.ts';
import {
  type AllreduceOptions,
  type AlltoallOptions,
  type AlltoallResult,
  type BroadcastOptions,
  type CollectiveOptions,
  checkOptions,
  type ReduceOptions,
} from './options.ts';
import { withMemory } from './plan-compressed.ts';
import {
  type Plan,
  planAllgather,
  planAllgatherObject,
  planAllreduce,
  planAlltoall,
  planBarrier,
  planBroadcast,
  planBroadcastObject,
  planReducescatter,
} from './plans.ts';
import type { OperationRunner } from './runner.ts';

export function allreduce<T extends TensorLike>(
  context: OperationRunner,
  x: T,
  options: AllreduceOptions = {},
): Promise<T> {
  const quick = isObject(options) ? context.quickAllreduce(x, options) : undefined;
  return quick ?? allreduceTheCommonWay(context, x, options);
}

async function allreduceTheCommonWay<T extends TensorLike>(
  context: OperationRunner,
  x: T,
  options: AllreduceOptions,
): Promise<T> {
  const plan = allreducePlan(context, [x], false, options);
  const [result] = await runPlan(context, plan, options, label('allreduce', options));
  return result as T;
}

export function allreduceSync<T extends TensorLike>(
  context: OperationRunner,
  x: T,
  options: AllreduceOptions = {},
): T {
  const quick = isObject(options) ? context.quickAllreduceSync(x, options) : undefined;
  if (quick !== undefined) return quick;
  const plan = allreducePlan(context, [x], false, options);
  const [result] = runPlanSync(context, plan, options, label('allreduce', options));
  return result as T;
}

export async function groupedAllreduce<T extends readonly TensorLike[]>(
  context: OperationRunner,
  xs: T,
  options: AllreduceOptions = {},
): Promise<T> {
  const plan = allreducePlan(context, xs, true, options);
  return (await runPlan(
    context,
    plan,
    options,
    label('groupedAllreduce', options),
  )) as readonly TensorLike[] as T;
}

export function groupedAllreduceSync<T extends readonly TensorLike[]>(
  context: OperationRunner,
  xs: T,
  options: AllreduceOptions = {},
): T {
  const plan = allreducePlan(context, xs, true, options);
  return runPlanSync(
    context,
    plan,
    options,
    label('groupedAllreduce', options),
  ) as readonly TensorLike[] as T;
}

export async function allgather<T extends TensorLike>(
  context: OperationRunner,
  x: T,
  options: CollectiveOptions = {},
): Promise<T> {
  const what = label('allgather', options);
  const [result] = await context.run(planAllgather([x], false, what), options, what);
  return result as T;
}

export function allgatherSync<T extends TensorLike>(
  context: OperationRunner,
  x: T,
  options: CollectiveOptions = {},
): T {
  const what = label('allgather', options);
  const [result] = context.runSync(planAllgather([x], false, what), options, what);
  return result as T;
}

export async function groupedAllgather<T extends readonly TensorLike[]>(
  context: OperationRunner,
  xs: T,
  options: CollectiveOptions = {},
): Promise<T> {
  const what = label('groupedAllgather', options);
  return (await context.run(planAllgather(xs, true, what), options, what)) as readonly TensorLike[] as T;
}

export function groupedAllgatherSync<T extends readonly TensorLike[]>(
  context: OperationRunner,
  xs: T,
  options: CollectiveOptions = {},
): T {
  const what = label('groupedAllgather', options);
  return context.runSync(planAllgather(xs, true, what), options, what) as readonly TensorLike[] as T;
}

export async function broadcast<T extends TensorLike>(
  context: OperationRunner,
  x: T,
  rootRank: number,
  options: BroadcastOptions = {},
): Promise<T> {
  return (await context.run(
    broadcastPlan(context, x, rootRank, options),
    options,
    label('broadcast', options),
  )) as T;
}

export function broadcastSync<T extends TensorLike>(
  context: OperationRunner,
  x: T,
  rootRank: number,
  options: BroadcastOptions = {},
): T {
  return context.runSync(
    broadcastPlan(context, x, rootRank, options),
    options,
    label('broadcast', options),
  ) as T;
}

export async function alltoall<T extends TensorLike>(
  context: OperationRunner,
  x: T,
  options: AlltoallOptions = {},
): Promise<AlltoallResult<T>> {
  return (await context.run(
    alltoallPlan(context, x, options),
    options,
    label('alltoall', options),
  )) as AlltoallResult<T>;
}

export function alltoallSync<T extends TensorLike>(
  context: OperationRunner,
  x: T,
  options: AlltoallOptions = {},
): AlltoallResult<T> {
  return context.runSync(
    alltoallPlan(context, x, options),
    options,
    label('alltoall', options),
  ) as AlltoallResult<T>;
}

export async function reducescatter<T extends TensorLike>(
  context: OperationRunner,
  x: T,
  options: ReduceOptions = {},
): Promise<T> {
  const plan = reducescatterPlan(context, [x], false, options);
  const [result] = await context.run(plan, options, label('reducescatter', options));
  return result as T;
}

export function reducescatterSync<T extends TensorLike>(
  context: OperationRunner,
  x: T,
  options: ReduceOptions = {},
): T {
  const plan = reducescatterPlan(context, [x], false, options);
  const [result] = context.runSync(plan, options, label('reducescatter', options));
  return result as T;
}

export async function groupedReducescatter<T extends readonly TensorLike[]>(
  context: OperationRunner,
  xs: T,
  options: ReduceOptions = {},
): Promise<T> {
  const plan = reducescatterPlan(context, xs, true, options);
  return (await context.run(
    plan,
    options,
    label('groupedReducescatter', options),
  )) as readonly TensorLike[] as T;
}

export function groupedReducescatterSync<T extends readonly TensorLike[]>(
  context: OperationRunner,
  xs: T,
  options: ReduceOptions = {},
): T {
  const plan = reducescatterPlan(context, xs, true, options);
  return context.runSync(plan, options, label('groupedReducescatter', options)) as readonly TensorLike[] as T;
}

export async function barrier(context: OperationRunner, options: CollectiveOptions = {}): Promise<void> {
  await context.run(planBarrier(), options, label('barrier', options));
}

export function barrierSync(context: OperationRunner, options: CollectiveOptions = {}): void {
  context.runSync(planBarrier(), options, label('barrier', options));
}

/** This rank has no more data: until all have joined it takes part in others' allreduces with zeros. */
export async function join(context: OperationRunner, options: CollectiveOptions = {}): Promise<number> {
  const what = label('join', options);
  return context.run(joinPlan, options, what, options.name ?? 'horovod.join');
}

export function joinSync(context: OperationRunner, options: CollectiveOptions = {}): number {
  const what = label('join', options);
  return context.runSync(joinPlan, options, what, options.name ?? 'horovod.join');
}

export async function broadcastObject<T>(
  context: OperationRunner,
  value: T,
  rootRank = 0,
  options: CollectiveOptions = {},
): Promise<T> {
  const what = label('broadcastObject', options);
  const members = context.membersOf(options.processSet, what);
  return context.run(planBroadcastObject(value, rootRank, members, what), options, what);
}

export function broadcastObjectSync<T>(
  context: OperationRunner,
  value: T,
  rootRank = 0,
  options: CollectiveOptions = {},
): T {
  const what = label('broadcastObject', options);
  const members = context.membersOf(options.processSet, what);
  return context.runSync(planBroadcastObject(value, rootRank, members, what), options, what);
}

export async function allgatherObject<T>(
  context: OperationRunner,
  value: T,
  options: CollectiveOptions = {},
): Promise<T[]> {
  const what = label('allgatherObject', options);
  return context.run(planAllgatherObject(value, what), options, what);
}

export function allgatherObjectSync<T>(
  context: OperationRunner,
  value: T,
  options: CollectiveOptions = {},
): T[] {
  const what = label('allgatherObject', options);
  return context.runSync(planAllgatherObject(value, what), options, what);
}

const joinPlan: Plan<number> = { kind: 'join', operands: [], operations: [], result: () => -1 };

/** How errors at the door name the call. It is the first to look at the options. */
function label(call: string, options: CollectiveOptions): string {
  if (!isObject(options)) checkOptions(options, call);
  return options.name === undefined ? call : `${call} "${options.name}"`;
}

function isObject(options: unknown): boolean {
  return typeof options === 'object' && options !== null;
}

function allreducePlan(
  context: OperationRunner,
  xs: readonly TensorLike[],
  isGrouped: boolean,
  options: AllreduceOptions,
): Plan<TensorLike[]> {
  const what = label(isGrouped ? 'groupedAllreduce' : 'allreduce', options);
  const members = context.membersOf(options.processSet, what);
  return planAllreduce(xs, isGrouped, withMemory(context, options, what), members, what);
}

function broadcastPlan(
  context: OperationRunner,
  x: TensorLike,
  rootRank: number,
  options: BroadcastOptions,
): Plan<TensorLike> {
  const what = label('broadcast', options);
  const members = context.membersOf(options.processSet, what);
  return planBroadcast(x, rootRank, options.inPlace === true, members, what);
}

function alltoallPlan(
  context: OperationRunner,
  x: TensorLike,
  options: AlltoallOptions,
): Plan<AlltoallResult<TensorLike>> {
  const what = label('alltoall', options);
  return planAlltoall(x, options, context.membersOf(options.processSet, what), what);
}

function reducescatterPlan(
  context: OperationRunner,
  xs: readonly TensorLike[],
  isGrouped: boolean,
  options: ReduceOptions,
): Plan<TensorLike[]> {
  const what = label(isGrouped ? 'groupedReducescatter' : 'reducescatter', options);
  return planReducescatter(xs, isGrouped, options, context.membersOf(options.processSet, what), what);
}
