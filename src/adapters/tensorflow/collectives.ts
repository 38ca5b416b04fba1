// The collectives of `horovod/tensorflow`: those of the core, which here also take and return tensors of TensorFlow.js.
// Typed arrays and tensors of the core go to the core as they are. You get back the kind you gave; a list may mix kinds.
//
// The result of a Sync form belongs to the tf.tidy() around the call and has a gradient, like that of any tf operation.
// The result of a promise form is the caller's to dispose, and has no gradient.

import {
  type AllreduceOptions,
  type AlltoallOptions,
  type AlltoallResult,
  type BroadcastOptions,
  type CollectiveOptions,
  invalidArgument,
  labelOf,
  type ReduceOptions,
} from '../../operations/options.ts';
import { describe, type TensorLike } from '../../tensor/tensor.ts';
import { core } from '../context.ts';
import * as differentiable from './collective-gradients.ts';
import { type ListCollective, listSync } from './collective-gradients.ts';
import { broadcastTensor, run } from './tensor-collectives.ts';
import {
  type CollectiveInput,
  type CollectiveResult,
  type CollectiveResults,
  isSource,
} from './tensor-operands.ts';

/** Reduces a tensor over all ranks; Average unless `op` says otherwise. `inPlace` assigns to a tf.Variable. */
export const allreduce: <T extends CollectiveInput>(
  x: T,
  options?: AllreduceOptions,
) => Promise<CollectiveResult<T>> = promiseForm(differentiable.allreduce);
/** The blocking form of allreduce(). */
export const allreduceSync: <T extends CollectiveInput>(
  x: T,
  options?: AllreduceOptions,
) => CollectiveResult<T> = syncForm(differentiable.allreduce);

/** Reduces several tensors in one fused operation, all or nothing. */
export const groupedAllreduce: <T extends readonly CollectiveInput[]>(
  xs: T,
  options?: AllreduceOptions,
) => Promise<CollectiveResults<T>> = groupForm(differentiable.allreduce);
/** The blocking form of groupedAllreduce(). */
export const groupedAllreduceSync: <T extends readonly CollectiveInput[]>(
  xs: T,
  options?: AllreduceOptions,
) => CollectiveResults<T> = groupSyncForm(differentiable.allreduce);

/** Concatenates the ranks' tensors along the first dimension, which may differ. */
export const allgather: <T extends CollectiveInput>(
  x: T,
  options?: CollectiveOptions,
) => Promise<CollectiveResult<T>> = promiseForm(differentiable.allgather);
/** The blocking form of allgather(). */
export const allgatherSync: <T extends CollectiveInput>(
  x: T,
  options?: CollectiveOptions,
) => CollectiveResult<T> = syncForm(differentiable.allgather);

/** allgather() of several tensors, all or nothing. */
export const groupedAllgather: <T extends readonly CollectiveInput[]>(
  xs: T,
  options?: CollectiveOptions,
) => Promise<CollectiveResults<T>> = groupForm(differentiable.allgather);
/** The blocking form of groupedAllgather(). */
export const groupedAllgatherSync: <T extends readonly CollectiveInput[]>(
  xs: T,
  options?: CollectiveOptions,
) => CollectiveResults<T> = groupSyncForm(differentiable.allgather);

/** Reduces over all ranks and gives each rank its part of the first dimension. */
export const reducescatter: <T extends CollectiveInput>(
  x: T,
  options?: ReduceOptions,
) => Promise<CollectiveResult<T>> = promiseForm(differentiable.reducescatter);
/** The blocking form of reducescatter(). */
export const reducescatterSync: <T extends CollectiveInput>(
  x: T,
  options?: ReduceOptions,
) => CollectiveResult<T> = syncForm(differentiable.reducescatter);

/** reducescatter() of several tensors, all or nothing. */
export const groupedReducescatter: <T extends readonly CollectiveInput[]>(
  xs: T,
  options?: ReduceOptions,
) => Promise<CollectiveResults<T>> = groupForm(differentiable.reducescatter);
/** The blocking form of groupedReducescatter(). */
export const groupedReducescatterSync: <T extends readonly CollectiveInput[]>(
  xs: T,
  options?: ReduceOptions,
) => CollectiveResults<T> = groupSyncForm(differentiable.reducescatter);

/** The root's tensor, on every rank. `rootRank` is a global rank; `inPlace` assigns to a tf.Variable. */
export async function broadcast<T extends CollectiveInput>(
  x: T,
  rootRank: number,
  options: BroadcastOptions = {},
): Promise<CollectiveResult<T>> {
  const result = isSource(x)
    ? await broadcastTensor(x, rootRank, options)
    : await core.broadcast(x as TensorLike, rootRank, options);
  return result as CollectiveResult<T>;
}

/** The blocking form of broadcast(). */
export function broadcastSync<T extends CollectiveInput>(
  x: T,
  rootRank: number,
  options: BroadcastOptions = {},
): CollectiveResult<T> {
  const result = isSource(x)
    ? differentiable.broadcastSync(x, rootRank, options)
    : core.broadcastSync(x as TensorLike, rootRank, options);
  return result as CollectiveResult<T>;
}

/** Sends a slice of the first dimension to each rank, and receives one from each. */
export async function alltoall<T extends CollectiveInput>(
  x: T,
  options: AlltoallOptions = {},
): Promise<AlltoallResult<CollectiveResult<T>>> {
  let receivedSplits = new Int32Array(0);
  const runCore = async ([operand]: readonly TensorLike[]) => {
    const result = await core.alltoall(operand as TensorLike, options);
    receivedSplits = Int32Array.from(result.receivedSplits);
    return [result.output];
  };
  const [output] = isSource(x)
    ? await run({ xs: [x], options, what: labelOf('alltoall', options) }, runCore)
    : await runCore([x as TensorLike]);
  return { output: output as CollectiveResult<T>, receivedSplits };
}

/** The blocking form of alltoall(). */
export function alltoallSync<T extends CollectiveInput>(
  x: T,
  options: AlltoallOptions = {},
): AlltoallResult<CollectiveResult<T>> {
  const result = isSource(x)
    ? differentiable.alltoallSync(x, options)
    : core.alltoallSync(x as TensorLike, options);
  return result as AlltoallResult<CollectiveResult<T>>;
}

// A form's result is `never` so that it fits the declarations above, as in operations/collective.ts.

function promiseForm<O extends CollectiveOptions>(
  collective: ListCollective<O>,
): (x: CollectiveInput, options?: O) => Promise<never> {
  const ofTensor = async (x: CollectiveInput, options: O) =>
    (await list(collective, [x], false, options))[0] as never;
  // Not async, which saves a promise on the core's quick path.
  return (x, options = {} as O) =>
    isSource(x) ? ofTensor(x, options) : (collective.one(x, options) as Promise<never>);
}

function syncForm<O extends CollectiveOptions>(
  collective: ListCollective<O>,
): (x: CollectiveInput, options?: O) => never {
  return (x, options = {} as O) =>
    (isSource(x) ? listSync(collective, [x], false, options)[0] : collective.oneSync(x, options)) as never;
}

function groupForm<O extends CollectiveOptions>(
  collective: ListCollective<O>,
): (xs: readonly CollectiveInput[], options?: O) => Promise<never> {
  return async (xs, options = {} as O) =>
    (await (hasSource(xs, collective.groupName)
      ? list(collective, xs, true, options)
      : collective.group(xs as readonly TensorLike[], options))) as never;
}

function groupSyncForm<O extends CollectiveOptions>(
  collective: ListCollective<O>,
): (xs: readonly CollectiveInput[], options?: O) => never {
  return (xs, options = {} as O) =>
    (hasSource(xs, collective.groupName)
      ? listSync(collective, xs, true, options)
      : collective.groupSync(xs as readonly TensorLike[], options)) as never;
}

/** The promise form of a list with at least one source. */
function list<O extends CollectiveOptions>(
  { name, groupName, takesInPlace = false, one, group }: ListCollective<O>,
  xs: readonly CollectiveInput[],
  isGrouped: boolean,
  options: O,
): Promise<CollectiveInput[]> {
  const what = labelOf(isGrouped ? groupName : name, options);
  return run({ xs, options, what, takesInPlace }, async (operands, given) =>
    isGrouped ? group(operands, given) : [await one(operands[0] as TensorLike, given)],
  );
}

/** False: a list for the core. */
function hasSource(xs: readonly CollectiveInput[], what: string): boolean {
  if (Array.isArray(xs)) return xs.some(isSource);
  throw invalidArgument(`${what} takes a list of tensors, not ${describe(xs)}.`);
}
