// How a process becomes a rank: finds the others, chooses a plane that all have, and puts a context together.
// Without a launcher there is nobody to find: a job of one rank in memory.

import { createLog, type Log } from '../diagnostics/log.ts';
import { HorovodError } from '../errors.ts';
import { loadNative, type NativeResult } from '../native/load.ts';
import { ControlBlock, toError, toFailureRecord } from '../plane/control-block.ts';
import { MemoryHub } from '../plane/memory/memory-plane.ts';
import type { DataPlane } from '../plane/plane.ts';
import { PortablePlane } from '../plane/portable/portable-plane.ts';
import { ShmPlane } from '../plane/shm/shm-plane.ts';
import { gather } from '../rendezvous/gather.ts';
import { controlBlockKey } from '../rendezvous/keys.ts';
import type { Store, WaitOptions } from '../rendezvous/store.ts';
import { TcpStore } from '../rendezvous/tcp-store.ts';
import type { Settings } from '../settings/table.ts';
import { describe } from '../tensor/tensor.ts';
import { type ContextParts, HorovodContext, type World } from './context.ts';
import type { ProcessSet } from './process-set.ts';
import { StartWatch } from './start-watch.ts';

export interface InitOptions {
  /** Sets of ranks known from the start, or 'dynamic': sets may be added and removed later. */
  processSets?: readonly ProcessSet[] | 'dynamic' | undefined;
  /** Only these ranks of the job take part; all of them must say the same, and are numbered anew. */
  ranks?: readonly number[] | undefined;
  signal?: AbortSignal | undefined;
  /** Default: HOROVOD_START_TIMEOUT, 30 s. */
  timeoutMs?: number | undefined;
}

/** `generation` counts init() calls from 1. */
export async function createContext(
  settings: Settings,
  options: InitOptions,
  generation: number,
  processSet: ProcessSet,
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
  const world = worldOf(settings, options.ranks);
  const log = createLog(settings.logLevel, settings.rank);
  const hasDynamicProcessSets = processSets === 'dynamic' || settings.dynamicProcessSets;
  const common = { world, log, limits: settings, hasDynamicProcessSets, processSet };
  const wait = { signal: options.signal, timeoutMs: options.timeoutMs ?? settings.startTimeoutMs };
  const sets = Array.isArray(processSets) ? { processSets } : {};
  if (world.size === 1) return HorovodContext.create(aloneParts(common), { ...wait, ...sets });
  const { parts, firstFailure, endStart } = await joinedParts(common, settings, options, generation, wait);
  try {
    return await HorovodContext.create(parts, { ...wait, ...sets });
  } catch (error) {
    throw (await firstFailure()) ?? error;
  } finally {
    endStart();
  }
}

type CommonParts = Pick<ContextParts, 'world' | 'log' | 'limits' | 'hasDynamicProcessSets' | 'processSet'>;

function aloneParts(common: CommonParts): ContextParts {
  const hub = new MemoryHub(1);
  return {
    ...common,
    plane: hub.plane(0),
    members: [0],
    exchange: async (text) => [text],
    failJob: (error) => hub.fail(error),
    leave() {},
    close() {},
  };
}

async function joinedParts(
  common: CommonParts,
  settings: Settings,
  options: InitOptions,
  generation: number,
  wait: WaitOptions,
): Promise<{ parts: ContextParts; firstFailure(): Promise<HorovodError | undefined>; endStart(): void }> {
  const members =
    options.ranks === undefined
      ? Array.from({ length: settings.size }, (_, rank) => rank)
      : [...options.ranks];
  const prefix = options.ranks === undefined ? '' : `ranks ${members.join(',')}/`;
  const isFirst = common.world.rank === 0;
  const store = await connect(settings, wait);
  const start = new StartWatch(store, `${prefix}failure/${generation}`);
  const owner = isFirst ? undefined : members[0];
  let control: ControlBlock | undefined;
  try {
    const key = prefix + controlBlockKey(generation);
    if (isFirst) {
      control = ControlBlock.create(settings.size, { directory: settings.shmDirectory });
      await store.set(key, control.path, wait);
    } else {
      control = ControlBlock.open(await start.guard(store.get(key, { ...wait, from: members[0] })));
    }
    control.attach(settings.rank);
    const block = control;
    const native = loadNative(settings);
    const usesNative = await start.guard(
      choosePlane(store, `${prefix}plane/${generation}`, settings, members, native, common.log, wait),
    );
    const plane: DataPlane =
      usesNative && native.built
        ? new ShmPlane(native.addon, block, {
            rank: settings.rank,
            localSize: settings.localSize,
            localCores: settings.localCores,
            shmDirectory: settings.shmDirectory,
            cma: settings.cma,
            timeoutMs: settings.operationTimeoutMs,
            stallAfterMs: settings.stallCheck ? settings.stallWarningMs : 0,
          })
        : new PortablePlane(block, {
            rank: settings.rank,
            localCores: settings.localCores,
            shmDirectory: settings.shmDirectory,
          });
    const forgetLastWords = rememberLastWords(block, settings.rank);
    let told: Promise<HorovodError> | undefined;
    let isStarting = true;
    const parts: ContextParts = {
      ...common,
      plane,
      members,
      exchange: (text) =>
        start.guard(
          gather(store, `${prefix}group/${generation}`, text, { ...wait, members, rank: settings.rank }),
        ),
      failJob: (error) => {
        const isOurs = block.fail(toFailureRecord(error));
        const record = isOurs ? undefined : block.failure();
        if (isStarting) told ??= start.tell(record === undefined ? error : toError(record), owner);
      },
      leave: () => block.leave(settings.rank),
      close() {
        forgetLastWords();
        // What is being told goes out first, and the block stays for those who are about to open it.
        if (told === undefined) {
          store.close();
          block.close();
        } else {
          void told.finally(() => {
            store.close();
            block.close();
          });
        }
      },
    };
    const endStart = () => {
      isStarting = false;
      start.end();
    };
    return { parts, firstFailure: async () => told, endStart };
  } catch (error) {
    const first = HorovodError.is(error) ? await start.tell(error, owner) : error;
    if (HorovodError.is(first)) control?.fail(toFailureRecord(first));
    store.close();
    control?.close();
    throw first;
  }
}

async function connect(settings: Settings, wait: WaitOptions): Promise<Store> {
  const { rendezvousAddress: address, secret, jobId, rank } = settings;
  if (address === undefined || secret === undefined || jobId === undefined) {
    throw new HorovodError(
      'ERR_HVD_RENDEZVOUS',
      `rank ${rank}: HOROVOD_SIZE=${settings.size}, but there is no launcher to find the other ranks by ` +
        '(HOROVOD_RENDEZVOUS_ADDR, HOROVOD_JOB_ID). Start the job with horovodrun.',
    );
  }
  return TcpStore.connect({
    address,
    secret,
    jobId,
    rank,
    signal: wait.signal,
    timeoutMs: wait.timeoutMs ?? settings.startTimeoutMs,
  });
}

/** The native plane if every rank can, the portable one otherwise; one rank says so. */
async function choosePlane(
  store: Store,
  prefix: string,
  settings: Settings,
  members: readonly number[],
  native: NativeResult,
  log: Log,
  wait: WaitOptions,
): Promise<boolean> {
  const isWanted = settings.plane !== 'portable';
  const own = !isWanted ? 'HOROVOD_PLANE=portable' : native.built ? '' : native.reason;
  await store.set(`${prefix}/${settings.rank}`, own, wait);
  const reasons = await Promise.all(
    members.map((member) => store.get(`${prefix}/${member}`, { ...wait, from: member })),
  );
  const place = reasons.findIndex((reason) => reason !== '');
  if (place < 0) return true;
  const [rank, reason] = [members[place], reasons[place]];
  if (settings.plane === 'shm') {
    throw new HorovodError(
      'ERR_HVD_NATIVE',
      `HOROVOD_PLANE=shm, but rank ${rank} has no native addon: ${reason}.`,
      { rank },
    );
  }
  if (settings.rank === members[0]) {
    log.write(
      'warning',
      `using the portable plane, because rank ${rank} has no native one: ${reason}. It is slower.`,
    );
  }
  return false;
}

/** An error nobody catches is about to end this process: other ranks and the launcher shall know it. */
function rememberLastWords(block: ControlBlock, rank: number): () => void {
  const onError = (error: unknown) => block.writeLastWords(rank, error);
  process.on('uncaughtExceptionMonitor', onError);
  return () => process.off('uncaughtExceptionMonitor', onError);
}

function worldOf(settings: Settings, ranks: readonly number[] | undefined): World {
  const { rank, size, localRank, localSize, crossRank, crossSize } = settings;
  // One host in this version: every host has the same number of ranks.
  if (ranks === undefined)
    return { rank, size, localRank, localSize, crossRank, crossSize, isHomogeneous: true };
  const isList =
    Array.isArray(ranks) && ranks.every((each) => Number.isSafeInteger(each) && each >= 0 && each < size);
  if (!isList || new Set(ranks).size !== ranks.length || ranks.length === 0) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `init: ranks is a list of different ranks below ${size}, not ${describe(ranks)}.`,
    );
  }
  const place = ranks.indexOf(rank);
  if (place < 0) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `init: rank ${rank} is not one of ranks [${ranks.join(', ')}]; only those may call it.`,
    );
  }
  const own = { rank: place, size: ranks.length };
  return {
    ...own,
    localRank: place,
    localSize: ranks.length,
    crossRank: 0,
    crossSize: 1,
    isHomogeneous: true,
  };
}
