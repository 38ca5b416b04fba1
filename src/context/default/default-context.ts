// The one context behind the package's functions: the only module of this package that keeps state.

import { disregardUnsizedTerminals } from '../../console/terminal.ts';
import { fromCaller, HorovodError } from '../../errors.ts';
import { ProcessSet } from '../../operations/process-set.ts';
import type { Seat } from '../../rendezvous/elastic-messages.ts';
import { isElasticWithoutLauncher } from '../../rendezvous/join.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { readSettings } from '../../settings/read-settings.ts';
import type { HorovodContext, World } from '../context.ts';
import type { ElasticWorker } from '../elastic-worker.ts';
import { createContext, type InitOptions } from '../start/bootstrap.ts';

/** All ranks. Its ranks are known after init(). */
export const globalProcessSet: ProcessSet = new ProcessSet([]);

let context: HorovodContext | undefined;
/** Of an elastic job, from init() to shutdown(). */
let worker: ElasticWorker | undefined;
/** The generation of `context`; 0: there was none yet, or the job is not elastic. */
let generation = 0;
let opening: Promise<void> | undefined;
/** How often init() was called for each choice of ranks; only those ranks have called it. */
const generations = new Map<string, number>();
let hasShutDown = false;

/** Joins the job. A second call while it runs does nothing. */
export function init(options: InitOptions = {}): Promise<void> {
  if (isInitialized()) return Promise.resolve();
  opening ??= open(options).finally(() => {
    opening = undefined;
  });
  return opening;
}

async function open(options: InitOptions): Promise<void> {
  const settings = readSettings(processEnvironment());
  if (settings.launcher.kind !== 'horovodrun' && settings.launcher.kind !== 'alone')
    disregardUnsizedTerminals();
  try {
    if (settings.worker !== undefined || isElasticWithoutLauncher(settings)) {
      checkElastic(options);
      const elastic = await import('../elastic-worker.ts');
      worker = await elastic.ElasticWorker.join(settings, settings.worker, options, globalProcessSet);
      return;
    }
    const ranks = String(options.ranks ?? 'all');
    const count = (generations.get(ranks) ?? 0) + 1;
    generations.set(ranks, count);
    const opened = await createContext(settings, options, count, globalProcessSet);
    await opened.timeline.startBySettings(settings.timelineFile, settings.timelineMarkCycles);
    context = opened;
  } catch (error) {
    throw fromCaller(error);
  }
  hasShutDown = false;
}

function checkElastic({ ranks }: InitOptions): void {
  if (hasShutDown) {
    throw new HorovodError(
      'ERR_HVD_SHUT_DOWN',
      'init() was called after shutdown(): a process of an elastic job that has left does not come back.',
    );
  }
  if (ranks !== undefined) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      'init: an elastic job has no use for `ranks`: horovodrun decides who takes part.',
    );
  }
}

/**
 * The only place that exchanges the context: closes the one of the generation before, and forms the next. Without a context
 * until it resolves.
 */
export async function reform(seat: Seat, signal?: AbortSignal): Promise<HorovodContext> {
  if (worker === undefined) throw new Error('reform() is for workers of elastic jobs');
  retire();
  generation = seat.generation;
  const formed = await worker.form(seat, signal);
  // shutdown() was called meanwhile.
  if (worker === undefined) formed.close();
  else context = formed;
  return formed;
}

/** The generation is over: closes its context, if that is still open. */
export function retire(): void {
  context?.retire(generation);
  context = undefined;
}

/** Leaves the job. Operations in flight fail with ERR_HVD_SHUT_DOWN, also on other ranks that wait for this one. */
export async function shutdown(): Promise<void> {
  await opening?.catch(() => {});
  if (!isInitialized()) return;
  const [closing, leaving] = [context, worker];
  [context, worker] = [undefined, undefined];
  hasShutDown = true;
  closing?.close();
  leaving?.close();
}

export function isInitialized(): boolean {
  return context !== undefined || worker !== undefined;
}

/** The process as part of an elastic job; undefined in others, and before init(). */
export function elasticWorker(): ElasticWorker | undefined {
  return worker;
}

/** Of the job: 0 if it is not elastic, or before its first one. */
export function currentGeneration(): number {
  return generation;
}

/** Undefined before init(), after shutdown(), and in an elastic job as long as this process is in no generation. */
export function openContext(): HorovodContext | undefined {
  return context;
}

/** Where this process stands; in an elastic job before elastic.run(), what is planned for it. */
export function defaultWorld(called?: string): World {
  return context?.world ?? worker?.world ?? defaultContext(called).world;
}

/** `called`: the function of the user's call, for the error. */
export function defaultContext(called?: string): HorovodContext {
  if (context !== undefined) return context;
  if (worker !== undefined) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      'in an elastic job, ranks work together only inside of elastic.run(): a rank that is added later would not take part ' +
        'in what comes before. Move the call into the function given to elastic.run(), or into state.onReset().',
    );
  }
  const shutDown =
    called === undefined
      ? 'Horovod has been shut down; call init() before using it again.'
      : `${called}() was called after shutdown(), and this process has no rank any more. Call it before shutdown() and ` +
        'keep the value, or call init() again.';
  throw hasShutDown
    ? new HorovodError('ERR_HVD_SHUT_DOWN', shutDown)
    : new HorovodError(
        'ERR_HVD_NOT_INITIALIZED',
        'Horovod has not been initialized; call and await init() first.',
      );
}
