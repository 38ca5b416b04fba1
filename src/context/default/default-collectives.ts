// The collectives, bound to the default context. Each has two forms, as Node's file functions do: one returns a
// promise, the Sync form blocks the calling thread and returns the value.

import * as core from '../../operations/collectives.ts';
import type {
  AllreduceOptions,
  AlltoallOptions,
  AlltoallResult,
  BroadcastOptions,
  CollectiveOptions,
  ReduceOptions,
} from '../../operations/options.ts';
import {
  type PreparedCollective,
  prepareAllreduce as prepare,
  prepareAllreduceSync as prepareSync,
} from '../../operations/prepared.ts';
import type { TensorLike } from '../../tensor/tensor.ts';
import type { HorovodContext } from '../context.ts';
import { defaultContext } from './default-context.ts';

/** Reduces a tensor over all ranks; Average unless `op` says otherwise. */
export function allreduce<T extends TensorLike>(x: T, options?: AllreduceOptions): Promise<T> {
  // Not async, which saves a promise on the short way.
  try {
    return core.allreduce(defaultContext(), x, options);
  } catch (error) {
    return Promise.reject(error);
  }
}

/** The blocking form of allreduce(). */
export function allreduceSync<T extends TensorLike>(x: T, options?: AllreduceOptions): T {
  return core.allreduceSync(defaultContext(), x, options);
}

/** Reduces several tensors in one fused operation, all or nothing. */
export function groupedAllreduce<T extends readonly TensorLike[]>(
  xs: T,
  options?: AllreduceOptions,
): Promise<T> {
  try {
    return core.groupedAllreduce(defaultContext(), xs, options);
  } catch (error) {
    return Promise.reject(error);
  }
}
/** The blocking form of groupedAllreduce(). */
export function groupedAllreduceSync<T extends readonly TensorLike[]>(xs: T, options?: AllreduceOptions): T {
  return core.groupedAllreduceSync(defaultContext(), xs, options);
}

/** Concatenates the ranks' tensors along the first dimension, which may differ. */
export function allgather<T extends TensorLike>(x: T, options?: CollectiveOptions): Promise<T> {
  try {
    return core.allgather(defaultContext(), x, options);
  } catch (error) {
    return Promise.reject(error);
  }
}
/** The blocking form of allgather(). */
export function allgatherSync<T extends TensorLike>(x: T, options?: CollectiveOptions): T {
  return core.allgatherSync(defaultContext(), x, options);
}

/** allgather() of several tensors, all or nothing. */
export const groupedAllgather: <T extends readonly TensorLike[]>(
  xs: T,
  options?: CollectiveOptions,
) => Promise<T> = promised(core.groupedAllgather);
/** The blocking form of groupedAllgather(). */
export const groupedAllgatherSync: <T extends readonly TensorLike[]>(
  xs: T,
  options?: CollectiveOptions,
) => T = bound(core.groupedAllgatherSync);

/** The root's tensor, on every rank. `rootRank` is a global rank. */
export function broadcast<T extends TensorLike>(
  x: T,
  rootRank: number,
  options?: BroadcastOptions,
): Promise<T> {
  try {
    return core.broadcast(defaultContext(), x, rootRank, options);
  } catch (error) {
    return Promise.reject(error);
  }
}
/** The blocking form of broadcast(). */
export function broadcastSync<T extends TensorLike>(x: T, rootRank: number, options?: BroadcastOptions): T {
  return core.broadcastSync(defaultContext(), x, rootRank, options);
}

/** Sends a slice of the first dimension to each rank, and receives one from each. */
export function alltoall<T extends TensorLike>(x: T, options?: AlltoallOptions): Promise<AlltoallResult<T>> {
  try {
    return core.alltoall(defaultContext(), x, options);
  } catch (error) {
    return Promise.reject(error);
  }
}
/** The blocking form of alltoall(). */
export function alltoallSync<T extends TensorLike>(x: T, options?: AlltoallOptions): AlltoallResult<T> {
  return core.alltoallSync(defaultContext(), x, options);
}

/** Reduces over all ranks and gives each rank its part of the first dimension. */
export function reducescatter<T extends TensorLike>(x: T, options?: ReduceOptions): Promise<T> {
  try {
    return core.reducescatter(defaultContext(), x, options);
  } catch (error) {
    return Promise.reject(error);
  }
}
/** The blocking form of reducescatter(). */
export function reducescatterSync<T extends TensorLike>(x: T, options?: ReduceOptions): T {
  return core.reducescatterSync(defaultContext(), x, options);
}

/** reducescatter() of several tensors, all or nothing. */
export const groupedReducescatter: <T extends readonly TensorLike[]>(
  xs: T,
  options?: ReduceOptions,
) => Promise<T> = promised(core.groupedReducescatter);
/** The blocking form of groupedReducescatter(). */
export const groupedReducescatterSync: <T extends readonly TensorLike[]>(
  xs: T,
  options?: ReduceOptions,
) => T = bound(core.groupedReducescatterSync);

/** Waits until every rank is here. */
export function barrier(options?: CollectiveOptions): Promise<void> {
  try {
    return core.barrier(defaultContext(), options);
  } catch (error) {
    return Promise.reject(error);
  }
}
/** The blocking form of barrier(). */
export function barrierSync(options?: CollectiveOptions): void {
  core.barrierSync(defaultContext(), options);
}

/** This rank has no more data: until all have joined it adds zeros to the others' allreduces. The last rank to join. */
export const join: (options?: CollectiveOptions) => Promise<number> = promised(core.join);
/** The blocking form of join(). */
export const joinSync: (options?: CollectiveOptions) => number = bound(core.joinSync);

/** The root's value (anything structuredClone() takes), on every rank. */
export function broadcastObject<T>(value: T, rootRank?: number, options?: CollectiveOptions): Promise<T> {
  try {
    return core.broadcastObject(defaultContext(), value, rootRank, options);
  } catch (error) {
    return Promise.reject(error);
  }
}
/** The blocking form of broadcastObject(). */
export function broadcastObjectSync<T>(value: T, rootRank?: number, options?: CollectiveOptions): T {
  return core.broadcastObjectSync(defaultContext(), value, rootRank, options);
}

/** Every rank's value, in rank order. */
export function allgatherObject<T>(value: T, options?: CollectiveOptions): Promise<T[]> {
  try {
    return core.allgatherObject(defaultContext(), value, options);
  } catch (error) {
    return Promise.reject(error);
  }
}
/** The blocking form of allgatherObject(). */
export function allgatherObjectSync<T>(value: T, options?: CollectiveOptions): T[] {
  return core.allgatherObjectSync(defaultContext(), value, options);
}

/**
 * Agrees once on an allreduce of these buffers; each run then reduces them in place at the lowest cost. Collective:
 * every rank prepares the same.
 */
export const prepareAllreduce: <T extends TensorLike | readonly TensorLike[]>(
  xs: T,
  options?: AllreduceOptions,
) => Promise<PreparedCollective<T>> = promised(prepare);
/** The blocking form of prepareAllreduce(). */
export const prepareAllreduceSync: <T extends TensorLike | readonly TensorLike[]>(
  xs: T,
  options?: AllreduceOptions,
) => PreparedCollective<T> = bound(prepareSync);

function promised<A extends unknown[], R>(
  form: (context: HorovodContext, ...args: A) => Promise<R>,
): (...args: A) => Promise<R> {
  return async (...args) => form(defaultContext(), ...args);
}

function bound<A extends unknown[], R>(form: (context: HorovodContext, ...args: A) => R): (...args: A) => R {
  return (...args) => form(defaultContext(), ...args);
}
