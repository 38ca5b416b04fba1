// Opens a run through the data: the index, the order, the threads or the main thread, and from them an iteration.

import { availableParallelism } from 'node:os';
import { HorovodError } from '../../errors.ts';
import { isLocal, shownLocation } from '../../files/location.ts';
import type { Files } from '../../files/registry.ts';
import type { DataWatch } from '../../observe/status/data-watch.ts';
import type { Settings } from '../../settings/table.ts';
import type { TypedArray, TypedArrayConstructor } from '../../tensor/dtype.ts';
import { streamLength } from '../order/lane-walk.ts';
import { chooseLanes, type Lanes, laneLength, maxChosenLanes } from '../order/lanes.ts';
import type { ElementFunction } from '../plan/function-reference.ts';
import type { ArrayColumn, StageNode } from '../plan/nodes.ts';
import type { Plan } from '../plan/normalise.ts';
import { type Advice, unpackStage } from './advice.ts';
import { BatchMemory } from './batch-memory.ts';
import { BufferPool } from './buffer-pool.ts';
import { alsoClosing, type Feed, InlineFeed } from './feed.ts';
import { Iteration } from './iteration.ts';
import type { CacheStore } from './memory-cache.ts';
import type { Meter } from './metrics.ts';
import type { IndexedFile } from './pieces.ts';
import { blocksOfOrder, Reader, type ReadOrder } from './reader.ts';
import { openerOf } from './source-files.ts';
import { formatOf, rowsOf } from './source-formats.ts';
import { allocatePlain } from './stack.ts';
import { functionsOf } from './stage-functions.ts';
import { nameOfStage, Stages } from './stages.ts';
import { type Cursor, dealingOf, type StepsOptions } from './steps.ts';
import { ThreadFeed } from './thread-feed.ts';
import type { DamagedRecord } from './work.ts';

/** The rank that iterates, among those that share the data. */
export interface Place {
  readonly rank: number;
  readonly size: number;
}

export interface RunRequest {
  readonly plan: Plan;
  /** Functions that were given as such. */
  readonly functions: readonly ElementFunction[];
  readonly columns: readonly ArrayColumn[] | undefined;
  readonly files: readonly IndexedFile[];
  readonly place: Place;
  /** Fixed by an earlier start; undefined: to be chosen. */
  readonly lanes: number | undefined;
  readonly cursor: Cursor;
  /** Opens the cache of the dataset, where it has one. */
  readonly cache: CacheStore;
  readonly meter: Meter;
  /** Of this rank; undefined: it is in no job. */
  readonly watch: DataWatch | undefined;
  readonly settings: Settings;
  readonly fileSystems: Files;
  readonly onTaken: (cursor: Cursor) => void;
  /** Records were left out. */
  readonly onDamaged: (records: readonly DamagedRecord[]) => void;
}

export interface Run {
  readonly iteration: Pick<Iteration, 'takeReady' | 'next' | 'nextSync'>;
  readonly feed: Pick<Feed, 'close'>;
  /** Gets batches whose values the loop needs no longer. */
  release(batch: unknown): void;
}

/** How a source is divided, and in which order it is read. */
export function orderOf(
  plan: Plan,
  files: readonly IndexedFile[],
  place: Place,
  lanes: number | undefined,
): { steps: StepsOptions; order: ReadOrder } {
  const { shard, rank, size } = { ...plan.source.settings, ...place };
  // Ranks that share positions deal; others have data of their own, or all of it.
  const dealer = shard === 'lanes' ? { rank, size } : { rank: 0, size: 1 };
  const order = {
    seed: plan.seed,
    pool: plan.pool,
    records: plan.records,
    skip: plan.positions.skip,
    stride: shard === 'records' ? { first: rank, step: size } : undefined,
  };
  if (plan.isStreamed) {
    const count = files.length;
    const lanes = { count, length: count * streamLength };
    const runLength = plan.stages.some((stage) => 'fn' in stage) ? slowRun : streamedRun;
    return {
      steps: { plan, lanes, runLength, ...(shard === 'none' ? dealer : { rank, size }) },
      order: { ...order, pool: plan.pool, lanes: count, isStreamed: true },
    };
  }
  const records = blocksOfOrder(files, { ...order, lanes: 1 }).reduce((sum, { length }) => sum + length, 0);
  const length = Math.max(0, Math.min(records - plan.positions.skip, plan.positions.take));
  const isAddressable = files.every((file) => file.offsets !== null || file.location === '');
  if (plan.pool === 'all' && !isAddressable) throw notAddressable(files);
  // A pool of all records is a true permutation.
  const pool = typeof plan.pool === 'number' && plan.pool >= records && isAddressable ? 'all' : plan.pool;
  const unlaned = { plan, lanes: { count: 1, length }, runLength: 1, ...dealer };
  const count = lanes ?? plan.source.settings.lanes ?? lanesFor(plan, pool, records, unlaned);
  const all: Lanes = { count, length };
  const runLength = runLengthOf(plan, files);
  return { steps: { plan, lanes: all, runLength, ...dealer }, order: { ...order, pool, lanes: count } };
}

/** Elements that are computed at once where there are no batches. With functions, which may be slow, nobody waits for many. */
function runLengthOf({ stages }: Plan, files: readonly IndexedFile[]): number {
  if (stages.some((stage) => 'fn' in stage)) return slowRun;
  const [bytes, records] = [sumOf(files, 'size'), sumOf(files, 'records')];
  return bytes === 0 ? slowRun : Math.max(8, Math.min(1024, Math.round((runBytes * records) / bytes)));
}

const slowRun = 64;
/** Where nobody knows how long records are. */
const streamedRun = 256;
/** Large enough that the calls for each read do not count, and small enough for the processor's cache. */
const runBytes = 1 << 20;

function sumOf(files: readonly IndexedFile[], name: 'size' | 'records'): number {
  return files.reduce((sum, file) => sum + file[name], 0);
}

/** Stretches shorter than this hardly mix. */
const minStretch = 4;

function lanesFor(
  plan: Plan,
  pool: number | 'all' | undefined,
  records: number,
  steps: StepsOptions,
): number {
  if (plan.isUncounted) return maxChosenLanes * Math.ceil(steps.size / maxChosenLanes);
  if (typeof pool !== 'number' || pool >= records) return 1;
  const chosen = chooseLanes(dealingOf(steps).globalBatchSize);
  return pool >= minStretch * chosen ? chosen : Math.max(1, Math.floor(pool / minStretch));
}

function notAddressable(files: readonly IndexedFile[]): HorovodError {
  const file = files.find(({ offsets }) => offsets === null);
  return new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `shuffle with pool: 'all' reads records one by one, which is not possible in ${shownLocation(file?.location ?? '')}: it is compressed, or its records ` +
      'have no places of their own. Give the pool as a number.',
  );
}

/** Items done of every lane when this many epochs are. */
export function itemsOfEpochs(lanes: Lanes, epochs: number): number[] {
  return Array.from({ length: lanes.count }, (_, lane) => epochs * laneLength(lane, lanes));
}

export async function openRun(request: RunRequest): Promise<Run> {
  const { plan, files, place, settings, meter, onTaken, onDamaged } = request;
  const { steps, order } = orderOf(plan, files, place, request.lanes);
  const cursor = plan.isUncounted
    ? {
        ...request.cursor,
        items: request.cursor.items ?? itemsOfEpochs(steps.lanes, request.cursor.epoch),
        inner: request.cursor.inner ?? new Array<number>(steps.lanes.count).fill(0),
      }
    : request.cursor;
  const isGrouped = plan.isUncounted && plan.batch !== undefined;
  const cacheAt = plan.stages.findIndex(({ node }) => node === 'cache');
  const isCached = cacheAt >= 0;
  const beforeCache = isCached ? await stagesOf(request, plan.localFrom, cacheAt) : undefined;
  const from = isCached ? cacheAt + 1 : plan.localFrom;
  const local = await stagesOf(request, from, isGrouped ? plan.batchAt : plan.stages.length);
  const afterBatch = isGrouped ? await stagesOf(request, plan.batchAt + 1, plan.stages.length) : undefined;
  const cache = isCached ? request.cache.open(readerOf(request, order, true)) : undefined;
  const memory = new BatchMemory(ownsBatches(plan), plan.batchAt === 0);
  const opened = await openFeed(request, order, memory);
  const endWatch = meter.begin(request.watch, adviceFor(request));
  const feed = alsoClosing(opened, () => {
    endWatch();
    cache?.close();
  });
  const memoryBytes = settings.dataMemoryMb * 2 ** 20;
  const stages = { local, afterBatch, beforeCache };
  const options = { steps, feed, ...stages, cache, meter, memoryBytes, cursor, onTaken, onDamaged };
  return { iteration: new Iteration(options), feed, release: (batch) => memory.release(batch) };
}

/** No function of the pipeline gets the batches, and could keep one. */
export function ownsBatches({ stages, batchAt }: Plan): boolean {
  return batchAt >= 0 && !stages.some((stage, at) => at > batchAt && 'fn' in stage);
}

/** How the pipeline runs, for advice on its stages. */
export function adviceFor(request: FeedRequest): Advice {
  const { plan, settings } = request;
  return {
    threads: threadsOf(request, plan.stages.slice(0, plan.localFrom)),
    interleave: interleaveOf(request),
    memoryMb: settings.dataMemoryMb,
    readerStages: plan.source.node === 'moduleDataset' ? ['read', 'moduleDataset'] : ['read', unpackStage],
    localStages: plan.stages.slice(plan.localFrom).map(nameOfStage),
  };
}

/** Stages [first, end) of the plan, for the main thread; undefined if there are none. */
export async function stagesOf(
  { plan, functions }: Pick<RunRequest, 'plan' | 'functions'>,
  first: number,
  end: number,
): Promise<Stages | undefined> {
  if (first >= end) return undefined;
  const stages = plan.stages.slice(first, end);
  return new Stages({
    rows: { kind: 'elements' },
    stages,
    firstStage: first,
    functions: await functionsOf(stages, functions),
    seed: plan.seed,
    allocate: allocatePlain,
  });
}

/** What a feed is opened for. */
export type FeedRequest = Pick<
  RunRequest,
  'plan' | 'columns' | 'files' | 'settings' | 'fileSystems' | 'functions'
>;

export async function openFeed(
  request: FeedRequest,
  order: ReadOrder,
  memory: Pick<BatchMemory, 'allocate'>,
): Promise<Feed> {
  const { plan, columns } = request;
  const stages = plan.stages.slice(0, plan.localFrom);
  const threads = threadsOf(request, stages);
  if (threads > 0) return startThreads(request, order, stages, threads, memory);
  const { rows, usesFirstStage } = await rowsOf(plan.source, stages, columns, request.files[0]?.columns);
  const left = usesFirstStage ? stages.slice(1) : stages;
  const computing = new Stages({
    rows,
    stages: left,
    firstStage: usesFirstStage ? 1 : 0,
    functions: await functionsOf(left, []),
    seed: plan.seed,
    // Records without batches share memory, which nobody gives back.
    allocate: plan.batch === undefined ? allocatePlain : memory.allocate,
    checksRepeats: request.settings.dataCheck,
  });
  return new InlineFeed(readerOf(request, order, false), computing);
}

/** Threads that compute; 0: the main thread does. Rows in memory that are only copied are not worth a thread. */
function threadsOf({ plan, settings }: FeedRequest, stages: readonly StageNode[]): number {
  const { dataThreads, localCores = availableParallelism(), localSize } = settings;
  const isInMemory = plan.source.paths.length === 0 && plan.source.node !== 'moduleDataset';
  if (isInMemory && !stages.some((stage) => 'fn' in stage)) return 0;
  return dataThreads ?? Math.max(1, Math.floor(localCores / localSize) - 1);
}

async function startThreads(
  request: FeedRequest,
  order: ReadOrder,
  stages: readonly StageNode[],
  threads: number,
  memory: Pick<BatchMemory, 'allocate'>,
): Promise<Feed> {
  const { plan, files, settings, fileSystems } = request;
  const { source, seed } = plan;
  const { native, nativePath } = settings;
  // Each thread would get a copy otherwise.
  const columns = request.columns?.map((column) => ({ ...column, data: inSharedMemory(column.data) }));
  return ThreadFeed.start({
    threads,
    maxSilenceMs: settings.operationTimeoutMs,
    allocate: plan.batch === undefined ? allocatePlain : memory.allocate,
    reader: {
      source,
      files,
      order,
      interleave: interleaveOf(request),
      memoryBytes: memoryFor(settings),
      native: { native, nativePath },
      fileSettings: fileSystems.settings,
      registrations: fileSystems.registrations,
    },
    compute: {
      source,
      stages,
      columns,
      known: files[0]?.columns,
      seed,
      checksRepeats: settings.dataCheck,
    },
  });
}

function inSharedMemory(data: ArrayBufferView): ArrayBufferView {
  if (data.buffer instanceof SharedArrayBuffer) return data;
  const Kind = data.constructor as unknown as TypedArrayConstructor;
  const shared = new Kind(new SharedArrayBuffer(data.byteLength), 0, (data as TypedArray).length);
  shared.set(data as never);
  return shared;
}

/** Half of it for records, half for batches. */
function memoryFor({ dataMemoryMb }: Settings): number {
  return (dataMemoryMb * 2 ** 20) / 2;
}

export function readerOf(request: FeedRequest, order: ReadOrder, isOrderOnly: boolean): Reader {
  const { plan, files, settings, fileSystems } = request;
  const pool = new BufferPool(allocatePlain);
  return new Reader({
    source: isOrderOnly ? undefined : formatOf(plan.source, settings, files[0]),
    files,
    order,
    open: openerOf(plan.source, fileSystems),
    allocate: (bytes) => new Uint8Array(pool.take(bytes), 0, bytes),
    recycle: ({ buffer }) => pool.give(buffer as ArrayBuffer),
    interleave: interleaveOf(request),
    memoryBytes: memoryFor(settings),
  });
}

/** Places that are read at a time. A request to another machine takes longer, and many of them cost it little. */
function interleaveOf({ plan, files }: Pick<RunRequest, 'plan' | 'files'>): number {
  const { interleave } = plan.source.settings;
  if (interleave !== null) return interleave;
  return files.some(({ location }) => location !== '' && !isLocal(location))
    ? remoteInterleave
    : localInterleave;
}

const localInterleave = 4;
const remoteInterleave = 16;
