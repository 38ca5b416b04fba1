// The collectives of `horovod/tensorflow`: the core's, which also take and return tensors of TensorFlow.js. Typed
// arrays and the core's tensors go to the core as they are. You get back the kind you gave; a list may mix kinds.
//
// A Sync form's result belongs to the tf.tidy() around the call and has a gradient, like that of any tf operation. A
// promise form's result is the caller's to dispose, and has no gradient.

import * as core from '../../context/default/default-collectives.ts';
import type {
  AllreduceOptions,
  AlltoallOptions,
  AlltoallResult,
  BroadcastOptions,
  CollectiveOptions,
  ReduceOptions,
} from '../../operations/options.ts';
import type { TensorLike } from '../../tensor/tensor.ts';
import * as differentiable from './collective-gradients.ts';
import { broadcastTensor, checkIsList, exchange, label, reduce } from './tensor-collectives.ts';
import {
  type CollectiveInput,
  type CollectiveResult,
  type CollectiveResults,
  isSource,
} from './tensor-operands.ts';

/** Reduces a tensor over all ranks; Average unless `op` says otherwise. `inPlace` assigns to a tf.Variable. */
export function allreduce<T extends CollectiveInput>(
  x: T,
  options: AllreduceOptions = {},
): Promise<CollectiveResult<T>> {
  // Not async: one promise less on the core's quick path.
  if (!isSource(x)) return core.allreduce(x as TensorLike, options) as Promise<CollectiveResult<T>>;
  return allreduceTensor(x, options) as Promise<CollectiveResult<T>>;
}

async function allreduceTensor(x: CollectiveInput, options: AllreduceOptions): Promise<CollectiveInput> {
  const [result] = await reduce([x], options, label('allreduce', options), async ([operand], o) => [
    await core.allreduce(operand as TensorLike, o),
  ]);
  return result as CollectiveInput;
}

/** The blocking form of allreduce(). */
export function allreduceSync<T extends CollectiveInput>(
  x: T,
  options: AllreduceOptions = {},
): CollectiveResult<T> {
  if (!isSource(x)) return core.allreduceSync(x as TensorLike, options) as CollectiveResult<T>;
  return differentiable.allreduceSync([x], false, options)[0] as CollectiveResult<T>;
}

/** Reduces several tensors in one fused operation, all or nothing. */
export async function groupedAllreduce<T extends readonly CollectiveInput[]>(
  xs: T,
  options: AllreduceOptions = {},
): Promise<CollectiveResults<T>> {
  const what = 'groupedAllreduce';
  if (!hasSource(xs, what))
    return core.groupedAllreduce(asList(xs), options) as Promise<CollectiveResults<T>>;
  const results = await reduce(xs, options, label(what, options), core.groupedAllreduce);
  return results as unknown as CollectiveResults<T>;
}

/** The blocking form of groupedAllreduce(). */
export function groupedAllreduceSync<T extends readonly CollectiveInput[]>(
  xs: T,
  options: AllreduceOptions = {},
): CollectiveResults<T> {
  if (!hasSource(xs, 'groupedAllreduce'))
    return core.groupedAllreduceSync(asList(xs), options) as CollectiveResults<T>;
  return differentiable.allreduceSync(xs, true, options) as unknown as CollectiveResults<T>;
}

/** Concatenates the ranks' tensors along the first dimension, which may differ. */
export async function allgather<T extends CollectiveInput>(
  x: T,
  options: CollectiveOptions = {},
): Promise<CollectiveResult<T>> {
  if (!isSource(x)) return core.allgather(x as TensorLike, options) as Promise<CollectiveResult<T>>;
  const [result] = await exchange([x], options, label('allgather', options), async ([operand]) => [
    await core.allgather(operand as TensorLike, options),
  ]);
  return result as CollectiveResult<T>;
}

/** The blocking form of allgather(). */
export function allgatherSync<T extends CollectiveInput>(
  x: T,
  options: CollectiveOptions = {},
): CollectiveResult<T> {
  if (!isSource(x)) return core.allgatherSync(x as TensorLike, options) as CollectiveResult<T>;
  return differentiable.allgatherSync([x], false, options)[0] as CollectiveResult<T>;
}

/** allgather() of several tensors, all or nothing. */
export async function groupedAllgather<T extends readonly CollectiveInput[]>(
  xs: T,
  options: CollectiveOptions = {},
): Promise<CollectiveResults<T>> {
  const what = 'groupedAllgather';
  if (!hasSource(xs, what))
    return core.groupedAllgather(asList(xs), options) as Promise<CollectiveResults<T>>;
  const results = await exchange(xs, options, label(what, options), (operands) =>
    core.groupedAllgather(operands, options),
  );
  return results as unknown as CollectiveResults<T>;
}

/** The blocking form of groupedAllgather(). */
export function groupedAllgatherSync<T extends readonly CollectiveInput[]>(
  xs: T,
  options: CollectiveOptions = {},
): CollectiveResults<T> {
  if (!hasSource(xs, 'groupedAllgather'))
    return core.groupedAllgatherSync(asList(xs), options) as CollectiveResults<T>;
  return differentiable.allgatherSync(xs, true, options) as unknown as CollectiveResults<T>;
}

/** The root's tensor, on every rank. `rootRank` is a global rank; `inPlace` assigns to a tf.Variable. */
export async function broadcast<T extends CollectiveInput>(
  x: T,
  rootRank: number,
  options: BroadcastOptions = {},
): Promise<CollectiveResult<T>> {
  if (!isSource(x)) return core.broadcast(x as TensorLike, rootRank, options) as Promise<CollectiveResult<T>>;
  return broadcastTensor(x, rootRank, options, label('broadcast', options)) as Promise<CollectiveResult<T>>;
}

/** The blocking form of broadcast(). */
export function broadcastSync<T extends CollectiveInput>(
  x: T,
  rootRank: number,
  options: BroadcastOptions = {},
): CollectiveResult<T> {
  if (!isSource(x)) return core.broadcastSync(x as TensorLike, rootRank, options) as CollectiveResult<T>;
  return differentiable.broadcastSync(x, rootRank, options) as CollectiveResult<T>;
}

/** Sends a slice of the first dimension to each rank, and receives one from each. */
export async function alltoall<T extends CollectiveInput>(
  x: T,
  options: AlltoallOptions = {},
): Promise<AlltoallResult<CollectiveResult<T>>> {
  type Result = AlltoallResult<CollectiveResult<T>>;
  if (!isSource(x)) return core.alltoall(x as TensorLike, options) as unknown as Promise<Result>;
  let receivedSplits = new Int32Array(0);
  const [output] = await exchange([x], options, label('alltoall', options), async ([operand]) => {
    const result = await core.alltoall(operand as TensorLike, options);
    receivedSplits = Int32Array.from(result.receivedSplits);
    return [result.output];
  });
  return { output: output as CollectiveResult<T>, receivedSplits };
}

/** The blocking form of alltoall(). */
export function alltoallSync<T extends CollectiveInput>(
  x: T,
  options: AlltoallOptions = {},
): AlltoallResult<CollectiveResult<T>> {
  type Result = AlltoallResult<CollectiveResult<T>>;
  if (!isSource(x)) return core.alltoallSync(x as TensorLike, options) as unknown as Result;
  return differentiable.alltoallSync(x, options) as unknown as Result;
}

/** Reduces over all ranks and gives each rank its part of the first dimension. */
export async function reducescatter<T extends CollectiveInput>(
  x: T,
  options: ReduceOptions = {},
): Promise<CollectiveResult<T>> {
  if (!isSource(x)) return core.reducescatter(x as TensorLike, options) as Promise<CollectiveResult<T>>;
  const [result] = await exchange([x], options, label('reducescatter', options), async ([operand]) => [
    await core.reducescatter(operand as TensorLike, options),
  ]);
  return result as CollectiveResult<T>;
}

/** The blocking form of reducescatter(). */
export function reducescatterSync<T extends CollectiveInput>(
  x: T,
  options: ReduceOptions = {},
): CollectiveResult<T> {
  if (!isSource(x)) return core.reducescatterSync(x as TensorLike, options) as CollectiveResult<T>;
  return differentiable.reducescatterSync([x], false, options)[0] as CollectiveResult<T>;
}

/** reducescatter() of several tensors, all or nothing. */
export async function groupedReducescatter<T extends readonly CollectiveInput[]>(
  xs: T,
  options: ReduceOptions = {},
): Promise<CollectiveResults<T>> {
  const what = 'groupedReducescatter';
  if (!hasSource(xs, what))
    return core.groupedReducescatter(asList(xs), options) as Promise<CollectiveResults<T>>;
  const results = await exchange(xs, options, label(what, options), (operands) =>
    core.groupedReducescatter(operands, options),
  );
  return results as unknown as CollectiveResults<T>;
}

/** The blocking form of groupedReducescatter(). */
export function groupedReducescatterSync<T extends readonly CollectiveInput[]>(
  xs: T,
  options: ReduceOptions = {},
): CollectiveResults<T> {
  if (!hasSource(xs, 'groupedReducescatter'))
    return core.groupedReducescatterSync(asList(xs), options) as CollectiveResults<T>;
  return differentiable.reducescatterSync(xs, true, options) as unknown as CollectiveResults<T>;
}

/** False: a list for the core. */
function hasSource(xs: readonly CollectiveInput[], what: string): boolean {
  checkIsList(xs, what);
  return xs.some(isSource);
}

function asList(xs: readonly CollectiveInput[]): readonly TensorLike[] {
  return xs as readonly TensorLike[];
}
