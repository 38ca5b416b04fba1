// The collectives, bound to the default context. Each has two forms, as Node's file functions do: one returns a
// promise, the …Sync twin blocks the calling thread and returns the value.

import * as collectives from '../../operations/collectives.ts';
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
import { defaultContext } from './default-context.ts';

/** Reduces a tensor over all ranks; Average unless `op` says otherwise. */
export function allreduce<T extends TensorLike>(x: T, options?: AllreduceOptions): Promise<T> {
  // Not async: one promise less on the quick path. What is thrown becomes a rejection all the same.
  try {
    return collectives.allreduce(defaultContext(), x, options);
  } catch (error) {
    return Promise.reject(error);
  }
}

/** The blocking form of allreduce(). */
export function allreduceSync<T extends TensorLike>(x: T, options?: AllreduceOptions): T {
  return collectives.allreduceSync(defaultContext(), x, options);
}

/** Reduces several tensors in one fused operation, all or nothing. */
export async function groupedAllreduce<T extends readonly TensorLike[]>(
  xs: T,
  options?: AllreduceOptions,
): Promise<T> {
  return collectives.groupedAllreduce(defaultContext(), xs, options);
}

/** The blocking form of groupedAllreduce(). */
export function groupedAllreduceSync<T extends readonly TensorLike[]>(xs: T, options?: AllreduceOptions): T {
  return collectives.groupedAllreduceSync(defaultContext(), xs, options);
}

/** Concatenates the ranks' tensors along the first dimension, which may differ. */
export async function allgather<T extends TensorLike>(x: T, options?: CollectiveOptions): Promise<T> {
  return collectives.allgather(defaultContext(), x, options);
}

/** The blocking form of allgather(). */
export function allgatherSync<T extends TensorLike>(x: T, options?: CollectiveOptions): T {
  return collectives.allgatherSync(defaultContext(), x, options);
}

/** allgather() of several tensors, all or nothing. */
export async function groupedAllgather<T extends readonly TensorLike[]>(
  xs: T,
  options?: CollectiveOptions,
): Promise<T> {
  return collectives.groupedAllgather(defaultContext(), xs, options);
}

/** The blocking form of groupedAllgather(). */
export function groupedAllgatherSync<T extends readonly TensorLike[]>(xs: T, options?: CollectiveOptions): T {
  return collectives.groupedAllgatherSync(defaultContext(), xs, options);
}

/** The root's tensor, on every rank. `rootRank` is a global rank. */
export async function broadcast<T extends TensorLike>(
  x: T,
  rootRank: number,
  options?: BroadcastOptions,
): Promise<T> {
  return collectives.broadcast(defaultContext(), x, rootRank, options);
}

/** The blocking form of broadcast(). */
export function broadcastSync<T extends TensorLike>(x: T, rootRank: number, options?: BroadcastOptions): T {
  return collectives.broadcastSync(defaultContext(), x, rootRank, options);
}

/** Sends a slice of the first dimension to each rank, and receives one from each. */
export async function alltoall<T extends TensorLike>(
  x: T,
  options?: AlltoallOptions,
): Promise<AlltoallResult<T>> {
  return collectives.alltoall(defaultContext(), x, options);
}

/** The blocking form of alltoall(). */
export function alltoallSync<T extends TensorLike>(x: T, options?: AlltoallOptions): AlltoallResult<T> {
  return collectives.alltoallSync(defaultContext(), x, options);
}

/** Reduces over all ranks and gives each rank its part of the first dimension. */
export async function reducescatter<T extends TensorLike>(x: T, options?: ReduceOptions): Promise<T> {
  return collectives.reducescatter(defaultContext(), x, options);
}

/** The blocking form of reducescatter(). */
export function reducescatterSync<T extends TensorLike>(x: T, options?: ReduceOptions): T {
  return collectives.reducescatterSync(defaultContext(), x, options);
}

/** reducescatter() of several tensors, all or nothing. */
export async function groupedReducescatter<T extends readonly TensorLike[]>(
  xs: T,
  options?: ReduceOptions,
): Promise<T> {
  return collectives.groupedReducescatter(defaultContext(), xs, options);
}

/** The blocking form of groupedReducescatter(). */
export function groupedReducescatterSync<T extends readonly TensorLike[]>(xs: T, options?: ReduceOptions): T {
  return collectives.groupedReducescatterSync(defaultContext(), xs, options);
}

/** Waits until every rank is here. */
export async function barrier(options?: CollectiveOptions): Promise<void> {
  return collectives.barrier(defaultContext(), options);
}

/** The blocking form of barrier(). */
export function barrierSync(options?: CollectiveOptions): void {
  collectives.barrierSync(defaultContext(), options);
}

/** This rank has no more data: until all have joined it adds zeros to the others' allreduces. The last rank to join. */
export async function join(options?: CollectiveOptions): Promise<number> {
  return collectives.join(defaultContext(), options);
}

/** The blocking form of join(). */
export function joinSync(options?: CollectiveOptions): number {
  return collectives.joinSync(defaultContext(), options);
}

/** The root's value (anything structuredClone() takes), on every rank. */
export async function broadcastObject<T>(
  value: T,
  rootRank?: number,
  options?: CollectiveOptions,
): Promise<T> {
  return collectives.broadcastObject(defaultContext(), value, rootRank, options);
}

/** The blocking form of broadcastObject(). */
export function broadcastObjectSync<T>(value: T, rootRank?: number, options?: CollectiveOptions): T {
  return collectives.broadcastObjectSync(defaultContext(), value, rootRank, options);
}

/** Every rank's value, in rank order. */
export async function allgatherObject<T>(value: T, options?: CollectiveOptions): Promise<T[]> {
  return collectives.allgatherObject(defaultContext(), value, options);
}

/** The blocking form of allgatherObject(). */
export function allgatherObjectSync<T>(value: T, options?: CollectiveOptions): T[] {
  return collectives.allgatherObjectSync(defaultContext(), value, options);
}

/**
 * Agrees once on an allreduce of these buffers; each run then reduces them in place at the least cost. Collective:
 * every rank prepares the same.
 */
export async function prepareAllreduce<T extends TensorLike | readonly TensorLike[]>(
  xs: T,
  options?: AllreduceOptions,
): Promise<PreparedCollective<T>> {
  return prepare(defaultContext(), xs, options);
}

/** The blocking form of prepareAllreduce(). */
export function prepareAllreduceSync<T extends TensorLike | readonly TensorLike[]>(
  xs: T,
  options?: AllreduceOptions,
): PreparedCollective<T> {
  return prepareSync(defaultContext(), xs, options);
}
