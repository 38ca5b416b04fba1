// The collectives as functions of a rank. Each has two forms, as Node's file functions do: one returns a promise, the
// Sync form blocks. context/default/ binds them to the default context.

import type { TensorLike } from '../tensor/tensor.ts';
import { promiseForm, syncForm } from './collective.ts';
import { allgatherCollective } from './collectives/allgather.ts';
import { allreduceCollective } from './collectives/allreduce.ts';
import { alltoallCollective } from './collectives/alltoall.ts';
import { barrierCollective, joinCollective } from './collectives/barrier.ts';
import { broadcastCollective } from './collectives/broadcast.ts';
import {
  allgatherObjectCall,
  allgatherObjectCollective,
  broadcastObjectCall,
  broadcastObjectCollective,
} from './collectives/objects.ts';
import { reducescatterCollective } from './collectives/reducescatter.ts';
import { ways } from './compiled/ways.ts';
import type {
  AllreduceOptions,
  AlltoallOptions,
  AlltoallResult,
  BroadcastOptions,
  CollectiveOptions,
  ReduceOptions,
} from './options.ts';
import type { OperationRunner } from './runner.ts';

type OfList<O> = <T extends readonly TensorLike[]>(runner: OperationRunner, xs: T, options?: O) => Promise<T>;
type OfListSync<O> = <T extends readonly TensorLike[]>(runner: OperationRunner, xs: T, options?: O) => T;
type Plain<R> = (runner: OperationRunner, options?: CollectiveOptions) => R;

// Each form tries the short way first (compiled/compiled-calls.ts). They are functions of their own, because V8 compiles a
// function that several share for none of them.

const none: Readonly<Record<string, never>> = {};

export function allreduce<T extends TensorLike>(
  runner: OperationRunner,
  x: T,
  options: AllreduceOptions = none,
): Promise<T> {
  return (
    runner.calls.tensorSoon(ways.allreduce, allreduceCollective.one, x, undefined, options) ??
    allreduceInFull(runner, x, options)
  );
}

export function allreduceSync<T extends TensorLike>(
  runner: OperationRunner,
  x: T,
  options: AllreduceOptions = none,
): T {
  return (
    runner.calls.tensorSync(ways.allreduce, allreduceCollective.one, x, undefined, options) ??
    allreduceInFullSync(runner, x, options)
  );
}

const allreduceInFull = promiseForm(allreduceCollective.one);
const allreduceInFullSync = syncForm(allreduceCollective.one);

export function groupedAllreduce<T extends readonly TensorLike[]>(
  runner: OperationRunner,
  xs: T,
  options: AllreduceOptions = none,
): Promise<T> {
  return (
    runner.calls.groupSoon(allreduceCollective.group, xs, options) ??
    groupedAllreduceInFull(runner, xs, options)
  );
}

export function groupedAllreduceSync<T extends readonly TensorLike[]>(
  runner: OperationRunner,
  xs: T,
  options: AllreduceOptions = none,
): T {
  return (
    runner.calls.groupSync(allreduceCollective.group, xs, options) ??
    groupedAllreduceInFullSync(runner, xs, options)
  );
}

const groupedAllreduceInFull = promiseForm(allreduceCollective.group);
const groupedAllreduceInFullSync = syncForm(allreduceCollective.group);

export function allgather<T extends TensorLike>(
  runner: OperationRunner,
  x: T,
  options: CollectiveOptions = none,
): Promise<T> {
  return (
    runner.calls.tensorSoon(ways.allgather, allgatherCollective.one, x, undefined, options) ??
    allgatherInFull(runner, x, options)
  );
}

export function allgatherSync<T extends TensorLike>(
  runner: OperationRunner,
  x: T,
  options: CollectiveOptions = none,
): T {
  return (
    runner.calls.tensorSync(ways.allgather, allgatherCollective.one, x, undefined, options) ??
    allgatherInFullSync(runner, x, options)
  );
}

const allgatherInFull = promiseForm(allgatherCollective.one);
const allgatherInFullSync = syncForm(allgatherCollective.one);

export const groupedAllgather: OfList<CollectiveOptions> = promiseForm(allgatherCollective.group);
export const groupedAllgatherSync: OfListSync<CollectiveOptions> = syncForm(allgatherCollective.group);

export function reducescatter<T extends TensorLike>(
  runner: OperationRunner,
  x: T,
  options: ReduceOptions = none,
): Promise<T> {
  return (
    runner.calls.tensorSoon(ways.reducescatter, reducescatterCollective.one, x, undefined, options) ??
    reducescatterInFull(runner, x, options)
  );
}

export function reducescatterSync<T extends TensorLike>(
  runner: OperationRunner,
  x: T,
  options: ReduceOptions = none,
): T {
  return (
    runner.calls.tensorSync(ways.reducescatter, reducescatterCollective.one, x, undefined, options) ??
    reducescatterInFullSync(runner, x, options)
  );
}

const reducescatterInFull = promiseForm(reducescatterCollective.one);
const reducescatterInFullSync = syncForm(reducescatterCollective.one);

export const groupedReducescatter: OfList<ReduceOptions> = promiseForm(reducescatterCollective.group);
export const groupedReducescatterSync: OfListSync<ReduceOptions> = syncForm(reducescatterCollective.group);

export function broadcast<T extends TensorLike>(
  runner: OperationRunner,
  x: T,
  rootRank: number,
  options: BroadcastOptions = none,
): Promise<T> {
  return (
    runner.calls.tensorSoon(ways.broadcast, broadcastCollective, x, rootRank, options) ??
    broadcastInFull(runner, x, rootRank, options)
  );
}

export function broadcastSync<T extends TensorLike>(
  runner: OperationRunner,
  x: T,
  rootRank: number,
  options: BroadcastOptions = none,
): T {
  return (
    runner.calls.tensorSync(ways.broadcast, broadcastCollective, x, rootRank, options) ??
    broadcastInFullSync(runner, x, rootRank, options)
  );
}

const broadcastInFull = promiseForm(broadcastCollective);
const broadcastInFullSync = syncForm(broadcastCollective);

export function alltoall<T extends TensorLike>(
  runner: OperationRunner,
  x: T,
  options: AlltoallOptions = none,
): Promise<AlltoallResult<T>> {
  return (
    runner.calls.tensorSoon<T, AlltoallResult<T>>(ways.alltoall, alltoallCollective, x, undefined, options) ??
    alltoallInFull(runner, x, options)
  );
}

export function alltoallSync<T extends TensorLike>(
  runner: OperationRunner,
  x: T,
  options: AlltoallOptions = none,
): AlltoallResult<T> {
  return (
    runner.calls.tensorSync<T, AlltoallResult<T>>(ways.alltoall, alltoallCollective, x, undefined, options) ??
    alltoallInFullSync(runner, x, options)
  );
}

const alltoallInFull = promiseForm(alltoallCollective);
const alltoallInFullSync = syncForm(alltoallCollective);

export function barrier(runner: OperationRunner, options: CollectiveOptions = none): Promise<void> {
  return runner.calls.barrierSoon(barrierCollective, options) ?? barrierInFull(runner, options);
}

export function barrierSync(runner: OperationRunner, options: CollectiveOptions = none): void {
  if (runner.calls.barrierSync(barrierCollective, options) === undefined) barrierInFullSync(runner, options);
}

const barrierInFull = promiseForm(barrierCollective);
const barrierInFullSync = syncForm(barrierCollective);

export const join: Plain<Promise<number>> = promiseForm(joinCollective);
export const joinSync: Plain<number> = syncForm(joinCollective);

export function broadcastObject<T>(
  runner: OperationRunner,
  value: T,
  rootRank = 0,
  options: CollectiveOptions = none,
): Promise<T> {
  const { calls } = runner;
  return (
    calls.bytesSoon(broadcastObjectCall(runner, value, rootRank, options)) ??
    broadcastObjectInFull(runner, value, rootRank, options)
  );
}

export function broadcastObjectSync<T>(
  runner: OperationRunner,
  value: T,
  rootRank = 0,
  options: CollectiveOptions = none,
): T {
  const done = runner.calls.bytesSync(broadcastObjectCall(runner, value, rootRank, options));
  return done === undefined ? broadcastObjectInFullSync(runner, value, rootRank, options) : done.result;
}

const broadcastObjectInFull = promiseForm(broadcastObjectCollective);
const broadcastObjectInFullSync = syncForm(broadcastObjectCollective);

export function allgatherObject<T>(
  runner: OperationRunner,
  value: T,
  options: CollectiveOptions = none,
): Promise<T[]> {
  return (
    runner.calls.bytesSoon(allgatherObjectCall(value, options)) ??
    allgatherObjectInFull(runner, value, options)
  );
}

export function allgatherObjectSync<T>(
  runner: OperationRunner,
  value: T,
  options: CollectiveOptions = none,
): T[] {
  const done = runner.calls.bytesSync(allgatherObjectCall(value, options));
  return done === undefined ? allgatherObjectInFullSync(runner, value, options) : done.result;
}

const allgatherObjectInFull = promiseForm(allgatherObjectCollective);
const allgatherObjectInFullSync = syncForm(allgatherObjectCollective);
