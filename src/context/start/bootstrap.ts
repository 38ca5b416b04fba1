// How a process becomes a rank: with others as join-ranks.ts says, or alone, as alone.ts does.

import { createLog } from '../../console/log.ts';
import { HorovodError } from '../../errors.ts';
import type { ProcessSet } from '../../operations/process-set.ts';
import type { Settings } from '../../settings/table.ts';
import { describe } from '../../tensor/tensor.ts';
import { HorovodContext } from '../context.ts';
import { announcer, type CommonParts, checkRanks } from './common-parts.ts';
import { joinRanks } from './join-ranks.ts';
import type { Seating } from './seating.ts';

export interface InitOptions {
  /** Sets of ranks known from the start, or 'dynamic': sets may be added and removed later. */
  processSets?: readonly ProcessSet[] | 'dynamic' | undefined;
  /** Only these ranks of the job take part; all of them must say the same, and are numbered anew. */
  ranks?: readonly number[] | undefined;
  signal?: AbortSignal | undefined;
  /** Default: HOROVOD_START_TIMEOUT, 30 s. */
  timeoutMs?: number | undefined;
}

/** `generation` counts init() calls for the same ranks from 1. `seating`: of a worker of an elastic job. */
export async function createContext(
  settings: Settings,
  options: InitOptions,
  generation: number,
  processSet: ProcessSet,
  seating?: Seating,
): Promise<HorovodContext> {
  const { processSets } = options;
  if (processSets !== undefined && processSets !== 'dynamic' && !Array.isArray(processSets)) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `init: processSets is a list of ProcessSet or 'dynamic', not ${describe(processSets)}.`,
    );
  }
  if (options.signal?.aborted) {
    throw new HorovodError('ERR_HVD_ABORTED', `rank ${settings.rank}: init was ended by its AbortSignal.`, {
      rank: settings.rank,
      cause: options.signal.reason,
    });
  }
  const wait = { signal: options.signal, timeoutMs: options.timeoutMs ?? settings.startTimeoutMs };
  const sets = Array.isArray(processSets) ? { processSets } : {};
  const hasDynamicProcessSets = processSets === 'dynamic' || settings.dynamicProcessSets;
  const common: CommonParts = { limits: settings, hasDynamicProcessSets, processSet };
  // A worker that is alone needs a control block, for notices and status, and keeps its memory.
  if (seating === undefined && (settings.size === 1 || options.ranks?.length === 1)) {
    checkRanks(options.ranks, settings.rank, settings.size);
    const log = createLog(settings, settings.rank);
    if (settings.autotune) announcer(settings, 0)('has nothing to do in a job of one rank.');
    const { aloneParts } = await import('./alone.ts');
    return HorovodContext.create(aloneParts(common, log, settings), { ...wait, ...sets });
  }
  const { ranks } = options;
  const joined = await joinRanks(common, { settings, ranks, generation, wait, seating });
  try {
    const context = await HorovodContext.create(joined.parts, { ...wait, ...sets });
    if (joined.autotune !== undefined) {
      const { attachAutotune } = await import('../autotune.ts');
      attachAutotune(context, joined.autotune);
    }
    return context;
  } catch (error) {
    throw (await joined.firstFailure()) ?? error;
  } finally {
    joined.endStart();
  }
}
