// What adapters see of the rank they run on: the only file of adapters/ that imports context/ (test/house/adapters.test.ts).
// A HorovodContext has all of AdapterContext; adapters know nothing else of it.

import { createLog, type Log } from '../console/log.ts';
import { defaultContext, isInitialized } from '../context/default/default-context.ts';
import { HorovodError } from '../errors.ts';
import type { AllreduceOptions } from '../operations/options.ts';
import type { PreparedCollective } from '../operations/prepared.ts';
import type { ProcessSet } from '../operations/process-set.ts';
import type { OperationRunner } from '../operations/runner.ts';
import { processEnvironment } from '../settings/environment.ts';
import { readSettings } from '../settings/read-settings.ts';
import type { TensorLike } from '../tensor/tensor.ts';

export * as core from '../context/default/default-collectives.ts';
export { globalProcessSet } from '../context/default/default-context.ts';

export interface AdapterContext extends OperationRunner {
  /** How gradients are reduced. Autotune may change it between steps. */
  readonly gradients: {
    /** Counts changes. Whatever was made from older settings must be made again. */
    readonly version: number;
    /** How many bytes are reduced in one operation during backpropagation. */
    readonly bucketBytes: number;
    /** Whether to reduce during backpropagation. Ask only where that is possible: autotune then tries it. */
    shouldOverlap(): boolean;
    /** Lets autotune choose one of these compressors; undefined until it has. */
    chooseCompressor(names: readonly string[]): string | undefined;
  };
  /** A reduction that runs again and again on the same memory; collective, blocking. */
  prepareAllreduceSync<T extends TensorLike | readonly TensorLike[]>(
    xs: T,
    options: AllreduceOptions,
  ): PreparedCollective<T>;
  /** Makes memory that may grow (a WASM heap) known to the transport, which then reads and writes it without copies. */
  adoptMemory(memory: { readonly buffer: ArrayBufferLike }): void;
  /** Numbers the reducers of gradients of a process set, by their first use: 1, 2 … */
  nextReducer(set: ProcessSet | undefined): number;
  /** A training step has ended, with this many samples of this rank if known. Ignored once the user calls markStep(). */
  reportStep(samples?: number): void;
}

/** The context of this process. Throws before init() and after shutdown(). */
export function currentContext(): AdapterContext {
  return defaultContext();
}

export function rank(): number {
  return currentContext().world.rank;
}

export function size(): number {
  return currentContext().world.size;
}

/** How many ranks reduce together with this one; 1 if this rank is alone or not a member of the process set. */
export function groupSize({
  what,
  processSet,
}: {
  readonly what: string;
  readonly processSet: ProcessSet | undefined;
}): number {
  const { world } = currentContext();
  if (processSet === undefined) return world.size;
  if (processSet.included() !== null) return processSet.included() ? (processSet.size() ?? 1) : 1;
  // Training would go on, with every rank alone.
  throw new HorovodError(
    'ERR_HVD_PROCESS_SET',
    `${what}: ${processSet} is not registered, or has been removed. Give it to init({ processSets }) or addProcessSet().`,
  );
}

/** Where rank 0 writes what all ranks would say alike; undefined on other ranks. Works before init() too. */
export function logOfRankZero(): Log | undefined {
  if (isInitialized()) {
    const { world, log } = currentContext();
    return world.rank === 0 ? log : undefined;
  }
  const settings = readSettings(processEnvironment());
  return settings.rank === 0 ? createLog(settings, 0) : undefined;
}
