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
  // Not async, which saves a promise on the quick path.
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
export const groupedAllreduce: <T extends readonly TensorLike[]>(
  xs: T,
  options?: AllreduceOptions,
) => Promise<T> = promised(core.groupedAllreduce);
/** The blocking form of groupedAllreduce(). */
export const groupedAllreduceSync: <T extends readonly TensorLike[]>(xs: T, options?: AllreduceOptions) => T =
  bound(core.groupedAllreduceSync);

/** Concatenates the ranks' tensors along the first dimension, which may differ. */
export const allgather: <T extends TensorLike>(x: T, options?: CollectiveOptions) => Promise<T> = promised(
  core.allgather,
);
/** The blocking form of allgather(). */
export const allgatherSync: <T extends TensorLike>(x: T, options?: CollectiveOptions) => T = bound(
  core.allgatherSync,
);

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
export const broadcast: <T extends TensorLike>(
  x: T,
  rootRank: number,
  options?: BroadcastOptions,
) => Promise<T> = promised(core.broadcast);
/** The blocking form of broadcast(). */
export const broadcastSync: <T extends TensorLike>(x: T, rootRank: number, options?: BroadcastOptions) => T =
  bound(core.broadcastSync);

/** Sends a slice of the first dimension to each rank, and receives one from each. */
export const alltoall: <T extends TensorLike>(x: T, options?: AlltoallOptions) => Promise<AlltoallResult<T>> =
  promised(core.alltoall);
/** The blocking form of alltoall(). */
export const alltoallSync: <T extends TensorLike>(x: T, options?: AlltoallOptions) => AlltoallResult<T> =
  bound(core.alltoallSync);

/** Reduces over all ranks and gives each rank its part of the first dimension. */
export const reducescatter: <T extends TensorLike>(x: T, options?: ReduceOptions) => Promise<T> = promised(
  core.reducescatter,
);
/** The blocking form of reducescatter(). */
export const reducescatterSync: <T extends TensorLike>(x: T, options?: ReduceOptions) => T = bound(
  core.reducescatterSync,
);

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
export const barrier: (options?: CollectiveOptions) => Promise<void> = promised(core.barrier);
/** The blocking form of barrier(). */
export const barrierSync: (options?: CollectiveOptions) => void = bound(core.barrierSync);

/** This rank has no more data: until all have joined it adds zeros to the others' allreduces. The last rank to join. */
export const join: (options?: CollectiveOptions) => Promise<number> = promised(core.join);
/** The blocking form of join(). */
export const joinSync: (options?: CollectiveOptions) => number = bound(core.joinSync);

/** The root's value (anything structuredClone() takes), on every rank. */
export const broadcastObject: <T>(value: T, rootRank?: number, options?: CollectiveOptions) => Promise<T> =
  promised(core.broadcastObject);
/** The blocking form of broadcastObject(). */
export const broadcastObjectSync: <T>(value: T, rootRank?: number, options?: CollectiveOptions) => T = bound(
  core.broadcastObjectSync,
);

/** Every rank's value, in rank order. */
export const allgatherObject: <T>(value: T, options?: CollectiveOptions) => Promise<T[]> = promised(
  core.allgatherObject,
);
/** The blocking form of allgatherObject(). */
export const allgatherObjectSync: <T>(value: T, options?: CollectiveOptions) => T[] = bound(
  core.allgatherObjectSync,
);

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
