// The one context behind the package's functions: the only module of this package that keeps state.

import { HorovodError } from '../../errors.ts';
import { ProcessSet } from '../../operations/process-set.ts';
import { processEnvironment } from '../../settings/environment.ts';
import { readSettings } from '../../settings/read-settings.ts';
import type { HorovodContext } from '../context.ts';
import { createContext, type InitOptions } from '../start/bootstrap.ts';

/** All ranks. Its ranks are known after init(). */
export const globalProcessSet: ProcessSet = new ProcessSet([]);

let context: HorovodContext | undefined;
let opening: Promise<void> | undefined;
/** How often init() was called for each choice of ranks; only those ranks have called it. */
const generations = new Map<string, number>();
let hasShutDown = false;

/** Joins the job. A second call while it runs does nothing. */
export function init(options: InitOptions = {}): Promise<void> {
  if (context !== undefined) return Promise.resolve();
  opening ??= open(options).finally(() => {
    opening = undefined;
  });
  return opening;
}

async function open(options: InitOptions): Promise<void> {
  const ranks = String(options.ranks ?? 'all');
  const generation = (generations.get(ranks) ?? 0) + 1;
  generations.set(ranks, generation);
  const settings = readSettings(processEnvironment());
  const opened = await createContext(settings, options, generation, globalProcessSet);
  await opened.timeline.startBySettings(settings.timelineFile, settings.timelineMarkCycles);
  context = opened;
  hasShutDown = false;
}

/** Leaves the job. Operations in flight fail with ERR_HVD_SHUT_DOWN, also on other ranks that wait for this one. */
export async function shutdown(): Promise<void> {
  await opening?.catch(() => {});
  if (context === undefined) return;
  const closing = context;
  context = undefined;
  hasShutDown = true;
  closing.close();
}

export function isInitialized(): boolean {
  return context !== undefined;
}

export function defaultContext(): HorovodContext {
  if (context !== undefined) return context;
  throw hasShutDown
    ? new HorovodError('ERR_HVD_SHUT_DOWN', 'Horovod has been shut down; call init() before using it again.')
    : new HorovodError(
        'ERR_HVD_NOT_INITIALIZED',
        'Horovod has not been initialized; call and await init() first.',
      );
}
