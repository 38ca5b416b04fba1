// What adapters see of the rank they run on: the only file of adapters/ that imports context/ (test/house/adapters.test.ts).
// A HorovodContext has all of AdapterContext; adapters know nothing else of it.

import { createLog, type Log } from '../console/log.ts';
import {
  defaultContext,
  defaultWorld,
  elasticWorker,
  openContext,
} from '../context/default/default-context.ts';
import type { AllreduceOptions } from '../operations/options.ts';
import type { PreparedCollective } from '../operations/prepared.ts';
import { notRegistered, type ProcessSet } from '../operations/process-set.ts';
import type { OperationRunner } from '../operations/runner.ts';
import { processEnvironment } from '../settings/environment.ts';
import { readSettings } from '../settings/read-settings.ts';
import type { TensorLike } from '../tensor/tensor.ts';

export * as core from '../context/default/default-collectives.ts';
export { globalProcessSet, isInitialized } from '../context/default/default-context.ts';

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
  /** Whether the ranks of the job may change. */
  readonly isElastic: boolean;
  /** Whether to compare weights and data of the ranks (HOROVOD_DIVERGENCE_CHECK). */
  readonly checksDivergence: boolean;
  /**
   * Gives a text and gets those of the members. Undefined if not all of them ask for it at the same point of their work: nobody
   * waits for a member that does something else.
   */
  exchangeCheck(key: string, text: string, set?: ProcessSet): Promise<readonly string[] | undefined>;
  exchangeCheckSync(key: string, text: string, set?: ProcessSet): readonly string[] | undefined;
  /** Where in its training this rank is, for errors that compare the ranks. */
  readonly steps: {
    /** That have ended. */
    readonly step: number;
    /** A training step begins, or its gradients are about to be reduced. */
    begin(): void;
    /** Counted from 1. */
    beginEpoch(epoch: number): void;
    /** So many batches of this epoch have ended. */
    endBatch(batches: number): void;
    endEpoch(): void;
    endTraining(): void;
  };
  /** A training step has ended, with this many samples of this rank if known. Ignored once the user calls markStep(). */
  reportStep(samples?: number): void;
}

/** The context of this process. Throws before init() and after shutdown(). */
export function currentContext(): AdapterContext {
  return defaultContext();
}

export function rank(): number {
  return defaultWorld().rank;
}

export function size(): number {
  return defaultWorld().size;
}

/** This rank's place among the ranks of its host. */
export function localPlace(): { localRank: number; localSize: number } {
  const { localRank, localSize } = defaultWorld();
  return { localRank, localSize };
}

/** Whether this process has a context. In an elastic job it has one only inside of elastic.run(). */
export function hasContext(): boolean {
  return openContext() !== undefined;
}

/** Whether the ranks of the job may change; known after init(), also before elastic.run(). */
export function isElasticJob(): boolean {
  return elasticWorker() !== undefined;
}

/** The steps of the context of this process; undefined where it has none: before init() and after shutdown(). */
export function trainingSteps(): AdapterContext['steps'] | undefined {
  return openContext()?.steps;
}

/** Shows numbers of this rank in `horovod status`, as many as there is room for. Does nothing where the process has no context. */
export function showMetrics(metrics: Readonly<Record<string, number>>): void {
  const shown = openContext()?.status.metrics;
  if (shown !== undefined) for (const [name, value] of Object.entries(metrics)) shown.keep(name, value);
}

/** How far fit() has come, for those who watch the job. */
export interface FitPosition {
  /** From 1. */
  readonly epoch: number;
  readonly epochs: number;
  /** Undefined: not known. */
  readonly stepsLeft: number | undefined;
}

/** Shows in `horovod status` and the dashboard how long training will go on. */
export function showPosition({ epoch, epochs, stepsLeft }: FitPosition): void {
  const context = openContext();
  const stepOf = stepsLeft === undefined ? undefined : (context?.steps.step ?? 0) + stepsLeft;
  context?.status.set({ epoch, epochs, stepOf });
}

/** A rank that the others wait for. */
export interface LateRank {
  readonly rank: number;
  /** In each step. */
  readonly lateMs: number;
}

/** Read from the status pages of the ranks, without a message; undefined: no rank is late, or nobody knows yet. */
export function lateRank(): LateRank | undefined {
  return openContext()?.stragglers.late();
}

/** How a rank does, from its status page. */
export interface RankFigures {
  readonly rank: number;
  readonly samplesPerSecond: number;
  readonly rssBytes: number;
  /** Of each of the last steps; undefined: not known yet. */
  readonly waitMs: number | undefined;
  readonly exposedMs: number | undefined;
}

/** Of all ranks whose pages are here, without a message. */
export function rankFigures(): RankFigures[] {
  const pages = openContext()?.status.readAll() ?? [];
  return pages.flatMap((page) => {
    if (page === undefined) return [];
    const { rank: number, rates, rssBytes, waitMsPerStep: waitMs, exposedMsPerStep: exposedMs } = page;
    return [{ rank: number, samplesPerSecond: rates.samplesPerSecond, rssBytes, waitMs, exposedMs }];
  });
}

/** This rank has written a checkpoint. */
export function showCheckpoint(location: string | URL): void {
  // What follows the path of a URL may be a password or a token.
  const path = String(location)
    .replace(/[?#].*$/, '')
    .replace(/:\/\/[^/@]*@/, '://');
  openContext()?.status.set({ checkpoint: { path, at: Date.now() } });
}

/** How many ranks reduce together with this one; 1 if this rank is alone or not a member of the process set. */
export function groupSize({
  what,
  processSet,
}: {
  readonly what: string;
  readonly processSet: ProcessSet | undefined;
}): number {
  if (processSet === undefined) return size();
  if (processSet.included() !== null) return processSet.included() ? (processSet.size() ?? 1) : 1;
  // Training would go on, with every rank alone.
  throw notRegistered(processSet, what);
}

/** Where rank 0 writes what all ranks would say alike; undefined on other ranks. Works before init() too. */
export function logOfRankZero(): Log | undefined {
  const context = openContext();
  if (context !== undefined) return context.world.rank === 0 ? context.log : undefined;
  const settings = readSettings(processEnvironment());
  return settings.rank === 0 ? createLog(settings, 0) : undefined;
}
