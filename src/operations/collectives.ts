// The collectives as functions of a rank. Each has two forms, as Node's file functions do: one returns a promise, the
// Sync form blocks. context/default/ binds them to the default context.

import type { TensorLike } from '../tensor/tensor.ts';
import { promiseForm, syncForm } from './collective.ts';
import { allgatherCollective } from './collectives/allgather.ts';
import { allreduceCollective } from './collectives/allreduce.ts';
import { alltoallCollective } from './collectives/alltoall.ts';
import { barrierCollective, joinCollective } from './collectives/barrier.ts';
import { broadcastCollective } from './collectives/broadcast.ts';
import { allgatherObjectCollective, broadcastObjectCollective } from './collectives/objects.ts';
import { reducescatterCollective } from './collectives/reducescatter.ts';
import type {
  AllreduceOptions,
  AlltoallOptions,
  AlltoallResult,
  BroadcastOptions,
  CollectiveOptions,
  ReduceOptions,
} from './options.ts';
import type { OperationRunner } from './runner.ts';

type OfTensor<O> = <T extends TensorLike>(runner: OperationRunner, x: T, options?: O) => Promise<T>;
type OfTensorSync<O> = <T extends TensorLike>(runner: OperationRunner, x: T, options?: O) => T;
type OfList<O> = <T extends readonly TensorLike[]>(runner: OperationRunner, xs: T, options?: O) => Promise<T>;
type OfListSync<O> = <T extends readonly TensorLike[]>(runner: OperationRunner, xs: T, options?: O) => T;
type Plain<R> = (runner: OperationRunner, options?: CollectiveOptions) => R;

/** Tries the quick way first, which allocates nothing. */
export function allreduce<T extends TensorLike>(
  runner: OperationRunner,
  x: T,
  options: AllreduceOptions = {},
): Promise<T> {
  return (
    (isObject(options) ? runner.quickAllreduce(x, options) : undefined) ?? fullAllreduce(runner, x, options)
  );
}

/** Tries the quick way first, which allocates nothing. */
export function allreduceSync<T extends TensorLike>(
  runner: OperationRunner,
  x: T,
  options: AllreduceOptions = {},
): T {
  const quick = isObject(options) ? runner.quickAllreduceSync(x, options) : undefined;
  return quick ?? fullAllreduceSync(runner, x, options);
}

const fullAllreduce: OfTensor<AllreduceOptions> = promiseForm(allreduceCollective.one);
const fullAllreduceSync: OfTensorSync<AllreduceOptions> = syncForm(allreduceCollective.one);

export const groupedAllreduce: OfList<AllreduceOptions> = promiseForm(allreduceCollective.group);
export const groupedAllreduceSync: OfListSync<AllreduceOptions> = syncForm(allreduceCollective.group);

export const allgather: OfTensor<CollectiveOptions> = promiseForm(allgatherCollective.one);
export const allgatherSync: OfTensorSync<CollectiveOptions> = syncForm(allgatherCollective.one);
export const groupedAllgather: OfList<CollectiveOptions> = promiseForm(allgatherCollective.group);
export const groupedAllgatherSync: OfListSync<CollectiveOptions> = syncForm(allgatherCollective.group);

export const reducescatter: OfTensor<ReduceOptions> = promiseForm(reducescatterCollective.one);
export const reducescatterSync: OfTensorSync<ReduceOptions> = syncForm(reducescatterCollective.one);
export const groupedReducescatter: OfList<ReduceOptions> = promiseForm(reducescatterCollective.group);
export const groupedReducescatterSync: OfListSync<ReduceOptions> = syncForm(reducescatterCollective.group);

export const broadcast: <T extends TensorLike>(
  runner: OperationRunner,
  x: T,
  rootRank: number,
  options?: BroadcastOptions,
) => Promise<T> = promiseForm(broadcastCollective);
export const broadcastSync: <T extends TensorLike>(
  runner: OperationRunner,
  x: T,
  rootRank: number,
  options?: BroadcastOptions,
) => T = syncForm(broadcastCollective);

export const alltoall: <T extends TensorLike>(
  runner: OperationRunner,
  x: T,
  options?: AlltoallOptions,
) => Promise<AlltoallResult<T>> = promiseForm(alltoallCollective);
export const alltoallSync: <T extends TensorLike>(
  runner: OperationRunner,
  x: T,
  options?: AlltoallOptions,
) => AlltoallResult<T> = syncForm(alltoallCollective);

export const barrier: Plain<Promise<void>> = promiseForm(barrierCollective);
export const barrierSync: Plain<void> = syncForm(barrierCollective);

export const join: Plain<Promise<number>> = promiseForm(joinCollective);
export const joinSync: Plain<number> = syncForm(joinCollective);

export const broadcastObject: <T>(
  runner: OperationRunner,
  value: T,
  rootRank?: number,
  options?: CollectiveOptions,
) => Promise<T> = promiseForm(broadcastObjectCollective);
export const broadcastObjectSync: <T>(
  runner: OperationRunner,
  value: T,
  rootRank?: number,
  options?: CollectiveOptions,
) => T = syncForm(broadcastObjectCollective);

export const allgatherObject: <T>(
  runner: OperationRunner,
  value: T,
  options?: CollectiveOptions,
) => Promise<T[]> = promiseForm(allgatherObjectCollective);
export const allgatherObjectSync: <T>(runner: OperationRunner, value: T, options?: CollectiveOptions) => T[] =
  syncForm(allgatherObjectCollective);

function isObject(options: unknown): boolean {
  return typeof options === 'object' && options !== null;
}
