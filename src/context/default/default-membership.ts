// Membership, process sets and memory, bound to the default context; and what this build supports.

import type { CollectiveRecord } from '../../observe/flight-recorder/flight-recorder.ts';
import { alloc as allocIn } from '../../operations/alloc.ts';
import { invalidArgument } from '../../operations/options.ts';
import { ProcessSet } from '../../operations/process-set.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { readSettings } from '../../settings/read-settings.ts';
import type { DType } from '../../tensor/dtype.ts';
import { describe, type Tensor } from '../../tensor/tensor.ts';
import { loadNative } from '../../transport/native/load.ts';
import type { TransportName } from '../../transport/transport.ts';
import { defaultContext, defaultWorld, elasticWorker, openContext } from './default-context.ts';

/** This process's number among all, 0 … size()-1. */
export function rank(): number {
  return defaultWorld('rank').rank;
}

/** The number of processes in the job. */
export function size(): number {
  return defaultWorld('size').size;
}

/** This process's number among those on its host. */
export function localRank(): number {
  return defaultWorld('localRank').localRank;
}

/** The number of processes on this host. */
export function localSize(): number {
  return defaultWorld('localSize').localSize;
}

/** This host's number among the hosts that have this local rank. */
export function crossRank(): number {
  return defaultWorld('crossRank').crossRank;
}

/** How many hosts have this local rank. */
export function crossSize(): number {
  return defaultWorld('crossSize').crossSize;
}

/** Do all hosts have the same number of ranks? */
export function isHomogeneous(): boolean {
  return defaultWorld('isHomogeneous').isHomogeneous;
}

/** What moves the bytes: 'shm', 'tcp', 'mpi', 'gloo', 'portable', or 'memory' for a job of one rank. */
export function transportName(): TransportName {
  return defaultContext('transportName').transportName;
}

/** Is the native addon installed, and allowed (HOROVOD_NATIVE)? */
export function nativeBuilt(): boolean {
  return loadNative(readSettings(processEnvironment())).built;
}

/** Is there an addon for the user's MPI? */
export function mpiBuilt(): boolean {
  return loadNative({ ...readSettings(processEnvironment()), transport: 'mpi' }).built;
}
/** Is there an addon for libgloo? */
export function glooBuilt(): boolean {
  return loadNative({ ...readSettings(processEnvironment()), transport: 'gloo' }).built;
}
/** Does MPI move this job's bytes? */
export function mpiEnabled(): boolean {
  return openContext()?.transportName === 'mpi';
}
/** Does Gloo move this job's bytes? */
export function glooEnabled(): boolean {
  return openContext()?.transportName === 'gloo';
}
/** Always false: this version has no CUDA support. */
export function cudaBuilt(): boolean {
  return false;
}
/** Always false: this version has no NCCL support. */
export function ncclBuilt(): boolean {
  return false;
}

/** A zeroed tensor, in memory that transports can reach without a copy. */
export function alloc(lengthOrShape: number | readonly number[], dtype: DType = 'float32'): Tensor {
  return allocIn(openContext() ?? elasticWorker() ?? defaultContext(), lengthOrShape, dtype);
}

/** Collective over all ranks, members or not. Needs init({ processSets: 'dynamic' }). */
export async function addProcessSet(
  set: ProcessSet | readonly number[],
  options: { signal?: AbortSignal; timeoutMs?: number } = {},
): Promise<ProcessSet> {
  const context = defaultContext();
  const added = set instanceof ProcessSet ? set : new ProcessSet(set);
  await context.addProcessSet(added, options);
  return added;
}

/** Collective over all ranks. False if the set is not registered, or is the set of all ranks. */
export async function removeProcessSet(
  set: ProcessSet,
  options: { signal?: AbortSignal; timeoutMs?: number } = {},
): Promise<boolean> {
  return defaultContext().removeProcessSet(set, options);
}

/** The last collectives of this rank (HOROVOD_FLIGHT_RECORDS, 2000), newest last. */
export function flightRecord(): CollectiveRecord[] {
  return defaultContext().flightRecord();
}

/**
 * Says that a training step of this rank has ended. Not collective. DistributedOptimizer and the other adapters do this by
 * themselves; in your own training loop, call it once per step with the number of samples in this rank's batch. From the
 * first call on, only your calls count.
 */
export function markStep(options: { samples?: number | undefined } = {}): void {
  const { steps } = defaultContext();
  if (typeof options !== 'object' || options === null) {
    throw invalidArgument(
      `markStep: options must be an object such as { samples: 32 }, not ${describe(options)}.`,
    );
  }
  const { samples } = options;
  if (samples !== undefined && !(typeof samples === 'number' && Number.isFinite(samples) && samples >= 0)) {
    throw invalidArgument(
      `markStep: samples must be the number of samples this rank trained with in this step, not ${describe(samples)}.`,
    );
  }
  steps.mark(samples);
}

/**
 * Shows values of this rank, such as its loss, in `horovod status`: up to 16 numbers, of which the newest are kept. Not collective, and
 * cheap enough for every step. The callbacks of horovod/keras do this by themselves. For curves, use SummaryWriter of
 * horovod/tensorboard.
 */
export function logMetrics(metrics: Readonly<Record<string, number>>): void {
  defaultContext('logMetrics').status.metrics.log(metrics);
}
