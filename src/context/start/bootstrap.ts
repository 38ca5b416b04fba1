// How a process becomes a rank: finds the others, learns who is on which host, chooses a transport that all have, and puts
// a context together. Without others there is nobody to find: a job of one rank in memory.

import { createLog, type Log, type LogTopic } from '../../console/log.ts';
import { ControlBlock, toError, toFailureRecord } from '../../control/control-block.ts';
import { GroupKnobs } from '../../engine/autotune/group-knobs.ts';
import { autotuneWord, hierarchyOf, jobShape, savedValues } from '../../engine/autotune/word.ts';
import { HorovodError } from '../../errors.ts';
import type { WaitOptions } from '../../net/wait.ts';
import { flightDirectory } from '../../observe/flight-recorder/flight-directory.ts';
import type { FlightPlace } from '../../observe/flight-recorder/flight-dumper.ts';
import { ControlBlockBoard } from '../../observe/status/status-board.ts';
import type { ProcessSet } from '../../operations/process-set.ts';
import { type JoinedJob, joinJob } from '../../rendezvous/join.ts';
import { shortJobId } from '../../rendezvous/short-job-id.ts';
import { gather } from '../../rendezvous/store/gather.ts';
import { controlBlockKey } from '../../rendezvous/store/keys.ts';
import type { Store } from '../../rendezvous/store/store.ts';
import type { Settings } from '../../settings/table.ts';
import { describe } from '../../tensor/tensor.ts';
import { MemoryHub } from '../../transport/memory/memory-transport.ts';
import { loadNative } from '../../transport/native/load.ts';
import { type Autotune, attachAutotune } from '../autotune.ts';
import { type ContextParts, HorovodContext } from '../context.ts';
import { openAloneStatus } from './alone-status.ts';
import { decideTransport, type Introduction } from './choose-transport.ts';
import { HostMap, whereabouts } from './hosts.ts';
import { type OpenedTransport, openTransport } from './open-transport.ts';
import { StartProgress } from './start-progress.ts';
import { asStartFailure, eitherOf, StartWatch } from './start-watch.ts';

export interface InitOptions {
  /** Sets of ranks known from the start, or 'dynamic': sets may be added and removed later. */
  processSets?: readonly ProcessSet[] | 'dynamic' | undefined;
  /** Only these ranks of the job take part; all of them must say the same, and are numbered anew. */
  ranks?: readonly number[] | undefined;
  signal?: AbortSignal | undefined;
  /** Default: HOROVOD_START_TIMEOUT, 30 s. */
  timeoutMs?: number | undefined;
}

/** `generation` counts init() calls for the same ranks from 1. */
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
  const wait = { signal: options.signal, timeoutMs: options.timeoutMs ?? settings.startTimeoutMs };
  const sets = Array.isArray(processSets) ? { processSets } : {};
  const hasDynamicProcessSets = processSets === 'dynamic' || settings.dynamicProcessSets;
  const common: CommonParts = { limits: settings, hasDynamicProcessSets, processSet };
  if (settings.size === 1 || options.ranks?.length === 1) {
    checkRanks(options.ranks, settings.rank, settings.size);
    const log = createLog(settings, settings.rank);
    if (settings.autotune) announcer(settings, 0)('has nothing to do in a job of one rank.');
    return HorovodContext.create(aloneParts(common, log, settings), { ...wait, ...sets });
  }
  const { parts, autotune, firstFailure, endStart } = await joinedParts(
    common,
    settings,
    options,
    generation,
    wait,
  );
  try {
    const context = await HorovodContext.create(parts, { ...wait, ...sets });
    if (autotune !== undefined) attachAutotune(context, autotune);
    return context;
  } catch (error) {
    throw (await firstFailure()) ?? error;
  } finally {
    endStart();
  }
}

type CommonParts = Pick<ContextParts, 'limits' | 'hasDynamicProcessSets' | 'processSet'>;

function aloneParts(common: CommonParts, log: Log, settings: Settings): ContextParts {
  const hub = new MemoryHub(1);
  const own = openAloneStatus(settings);
  return {
    ...common,
    log,
    world: new HostMap([{ hostname: 'localhost', machine: '' }]).worldOf(0),
    transport: hub.transport(0),
    members: [0],
    exchange: async (text) => [text],
    failJob: (error) => hub.fail(error),
    // There is nobody to compare with: only for those who ask for it.
    flight:
      settings.flightDirectory === undefined ? undefined : flightPlace(settings, `alone-${process.pid}`),
    ...own,
  };
}

interface JoinedParts {
  readonly parts: ContextParts;
  readonly autotune: Autotune | undefined;
  firstFailure(): Promise<HorovodError | undefined>;
  endStart(): void;
}

async function joinedParts(
  common: CommonParts,
  settings: Settings,
  options: InitOptions,
  generation: number,
  wait: WaitOptions,
): Promise<JoinedParts> {
  const progress = new StartProgress();
  progress.joining(settings);
  const job = await joinJob(settings, wait).finally(() => progress.end());
  const { rank, size, store } = job;
  const log = createLog(settings, rank);
  const debug = (text: string, topic: LogTopic) => log.write('debug', text, { topic });
  debug(`in job ${job.jobId} of ${job.launcher}, one of ${size} ranks`, 'rendezvous');
  let prefix = '';
  let members: readonly number[];
  try {
    members = checkRanks(options.ranks, rank, size);
    if (options.ranks !== undefined) prefix = `ranks ${members.join(',')}/`;
  } catch (error) {
    job.close();
    throw error;
  }
  const start = new StartWatch(store, `${prefix}failure/${generation}`);
  const tell = { ...wait, members, rank };
  let control: ControlBlock | undefined;
  let opened: OpenedTransport | undefined;
  let owner: number | undefined;
  try {
    const place = members.indexOf(rank);
    const warn = (text: string) => log.write('warning', text);
    const introduction = { ...introduce(settings), autotune: autotuneWord(settings, place === 0, warn) };
    const onMissing = progress.gathering(members, place, log);
    const told = await start.guard(
      gather(store, `${prefix}introduction/${generation}`, JSON.stringify(introduction), {
        ...tell,
        onMissing,
      }),
    );
    const introductions = told.map((text) => JSON.parse(text) as Introduction);
    const hosts = new HostMap(introductions);
    const decision = decideTransport(introductions, members, hosts.hosts);
    if (place === 0 && decision.warning !== undefined) log.write('warning', decision.warning);
    debug(`${members.length} ranks on ${hosts.hosts} hosts, transport ${decision.transport}`, 'rendezvous');
    progress.stage(`opening the ${decision.transport} transport`);
    const leader = members[hosts.placesOn(hosts.hostOf[place] as number)[0] as number] as number;
    owner = leader === rank ? undefined : leader;
    const block = await controlBlockOf(store, prefix, generation, settings, job, leader, start, wait);
    control = block;
    const word = introductions[0]?.autotune;
    const shape = jobShape(decision.transport, hosts.hostOf);
    // What a transport is opened with cannot change later.
    const saved = word === undefined ? undefined : savedValues(word, shape);
    opened = await openTransport({
      ...{
        settings: { ...settings, ...hierarchyOf(saved) },
        job,
        block,
        hosts,
        members,
        place,
        decision,
        log,
      },
      generation: `${prefix}${generation}`,
      wait: { ...wait, signal: eitherOf(wait.signal, start.signal) },
      exchange: (text) => start.guard(gather(store, `${prefix}addresses/${generation}`, text, tell)),
    });
    const { transport, close: closeTransport } = opened;
    const usual = {
      allreduce: settings.hierarchicalAllreduce ?? true,
      allgather: settings.hierarchicalAllgather ?? true,
    };
    const fixed = saved === undefined ? word?.given : ['hierarchicalAllreduce', 'hierarchicalAllgather'];
    const groupKnobs =
      word === undefined ? undefined : GroupKnobs.of(transport, hosts.hostOf, usual, fixed ?? []);
    let groups = 0;
    const exchangeForGroup = (text: string) =>
      start.guard(gather(store, `${prefix}group/${generation}/${++groups}`, text, tell));
    const forgetLastWords = rememberLastWords(block, rank);
    let failureTold: Promise<HorovodError> | undefined;
    let isStarting = true;
    const parts: ContextParts = {
      ...common,
      ...{ log, world: hosts.worldOf(place), transport, members, hostOf: hosts.hostOf },
      ...{ openGroup: groupKnobs?.open, exchange: (text) => exchangeForGroup(text) },
      startSignal: start.signal,
      status: {
        board: new ControlBlockBoard(block, members),
        host: hosts.nameOf(place),
        job: shortJobId(job.jobId),
      },
      timelineBlock: {
        ...{ fd: block.fd, path: block.path, ranks: block.ranks, number: rank },
        hasOtherHosts: hosts.hosts > 1,
      },
      flight: flightPlace(settings, [shortJobId(job.jobId), ...(prefix === '' ? [] : members)].join('-')),
      pidOf: (each) => block.pid(members[each] as number),
      failJob: (error) => {
        const isOurs = block.fail(toFailureRecord(error));
        const record = isOurs ? undefined : block.failure();
        if (isStarting) failureTold ??= start.tell(record === undefined ? error : toError(record), owner);
      },
      leave: () => block.leave(rank),
      close() {
        forgetLastWords();
        closeTransport();
        // What is being told goes out first, and the block stays for those who are about to open it.
        const end = (): void => {
          job.close();
          block.close();
        };
        if (failureTold === undefined) end();
        else void failureTold.finally(end);
      },
    };
    debug(`the ${transport.name} transport is open, background ${transport.background}`, 'transport');
    const endStart = () => {
      progress.end();
      isStarting = false;
      start.end();
    };
    const autotune =
      word === undefined ? undefined : { word, settings, shape, groupKnobs, say: announcer(settings, place) };
    return { parts, autotune, firstFailure: async () => failureTold, endStart };
  } catch (error) {
    progress.end();
    const own = asStartFailure(error, rank);
    const first = await start.tell(own, owner);
    control?.fail(toFailureRecord(first));
    opened?.close();
    job.close();
    control?.close();
    // What is no error of ours goes to the caller as it is.
    throw first === own ? error : first;
  }
}

/** Says what autotune does, whatever the level of the log: who turns it on wants to know. */
function announcer(settings: Settings, rank: number): (text: string) => void {
  const log = createLog(settings, rank);
  return (text) => log.tell(`autotune ${text}`);
}

/** Under horovodrun the report of a failed job says where the records are. */
function flightPlace({ flightDirectory: given, launcher }: Settings, job: string): FlightPlace | undefined {
  const directory = flightDirectory(given, job);
  return directory === undefined ? undefined : { directory, isAnnounced: launcher.kind === 'horovodrun' };
}

function introduce(settings: Settings): Introduction {
  const { transport, launcher, hostname } = settings;
  const native = loadNative(settings);
  const wish = transport === 'auto' && !settings.native ? 'portable' : transport;
  const lack = transport === 'portable' ? 'HOROVOD_TRANSPORT=portable' : native.built ? '' : native.reason;
  const givenName = launcher.kind === 'horovodrun' ? hostname : undefined;
  return { ...whereabouts(givenName), wish, lack };
}

/** Each host has a control block, made by the first of its ranks. */
async function controlBlockOf(
  store: Store,
  prefix: string,
  generation: number,
  settings: Settings,
  { rank, size }: JoinedJob,
  leader: number,
  start: StartWatch,
  wait: WaitOptions,
): Promise<ControlBlock> {
  const key = prefix + controlBlockKey(generation, leader);
  const block =
    rank === leader
      ? ControlBlock.create(size, { directory: settings.shmDirectory })
      : ControlBlock.open(await start.guard(store.get(key, { ...wait, from: leader })));
  try {
    if (rank === leader) await start.guard(store.set(key, block.path, wait));
    block.attach(rank);
    return block;
  } catch (error) {
    block.close();
    throw error;
  }
}

/** An error nobody catches is about to end this process: other ranks and the launcher shall know it. */
function rememberLastWords(block: ControlBlock, rank: number): () => void {
  const onError = (error: unknown) => block.writeLastWords(rank, error);
  process.on('uncaughtExceptionMonitor', onError);
  return () => process.off('uncaughtExceptionMonitor', onError);
}

/** The ranks that take part. */
function checkRanks(ranks: readonly number[] | undefined, rank: number, size: number): readonly number[] {
  if (ranks === undefined) return Array.from({ length: size }, (_, each) => each);
  const isList =
    Array.isArray(ranks) && ranks.every((each) => Number.isSafeInteger(each) && each >= 0 && each < size);
  if (!isList || new Set(ranks).size !== ranks.length || ranks.length === 0) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `init: ranks is a list of different ranks below ${size}, not ${describe(ranks)}.`,
    );
  }
  if (!ranks.includes(rank)) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `init: rank ${rank} is not one of ranks [${ranks.join(', ')}]; only those may call it.`,
    );
  }
  return [...ranks];
}
