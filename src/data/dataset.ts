// Dataset: a pipeline over training data. Each call adds a node to its plan and returns a new dataset. A dataset also has a place
// in its data: an iterator starts there, and it moves on with each batch that the training loop takes. After a whole pass the
// next iterator starts with the next epoch.

import { join } from 'node:path';
import { createLog } from '../console/log.ts';
import { allgatherObject, allgatherObjectSync } from '../context/default/default-collectives.ts';
import { openContext } from '../context/default/default-context.ts';
import { defaultFiles } from '../context/default/default-files.ts';
import { HorovodError } from '../errors.ts';
import { isLocal, pathOf } from '../files/location.ts';
import { checkNames, invalid } from '../operations/check-options.ts';
import { processEnvironment } from '../settings/environment.ts';
import { readSettings } from '../settings/read-settings.ts';
import type { Settings } from '../settings/table.ts';
import { describe, type Tensor } from '../tensor/tensor.ts';
import { DataIterator } from './data-iterator.ts';
import {
  type BatchOf,
  type BatchOptions,
  type BucketOptions,
  checkedBatch,
  checkedBuckets,
  checkWhole,
  type PaddedBatchOptions,
} from './dataset-options.ts';
import { DamageLog } from './execute/damage-log.ts';
import { shareIndex } from './execute/file-indexes.ts';
import { FolderCache } from './execute/folder-cache.ts';
import { type CacheStore, MemoryCache } from './execute/memory-cache.ts';
import { type DataMetrics, Meter } from './execute/metrics.ts';
import { partFiles, shardKey } from './execute/module-parts.ts';
import { type IndexedFile, memoryFile } from './execute/pieces.ts';
import { itemsOfEpochs, openRun, orderOf, type Place, type Run } from './execute/run.ts';
import { formatOf } from './execute/source-formats.ts';
import { type Cursor, stepsPerEpoch } from './execute/steps.ts';
import { checkFeatures, type Features } from './formats/example/features.ts';
import { checkState, type DataState } from './order/state.ts';
import { merged, type RankItems } from './place-of-ranks.ts';
import { fingerprintOfCache, fingerprintOfFiles, fingerprintOfPlan } from './plan/fingerprint.ts';
import {
  type ElementContext,
  type ElementFunction,
  type FunctionReference,
  isReference,
  type Json,
} from './plan/function-reference.ts';
import type { ArrayColumn, CacheNode, NodeFunction, PlanNode, SourceNode } from './plan/nodes.ts';
import { normalise, type Plan } from './plan/normalise.ts';
import { recordKernels } from './record-kernels.ts';
import { checkRestored } from './restored-files.ts';
import { becomeResumable } from './resumable.ts';
import type { TfDataServiceConfig } from './service/config.ts';
import { checkForService } from './service/job-plan.ts';
import { type SendToDataServiceOptions, sendRequest } from './service/requests.ts';
import {
  checkAfterService,
  ServiceData,
  type ServicePlace,
  type ServiceRequest,
} from './service/service-data.ts';
import { throughService } from './service/through.ts';

type Fn<T, R> = FunctionReference | ((element: T, context: ElementContext) => R | Promise<R>);

/** What the datasets of one chain hand on. */
interface Parts {
  readonly nodes: readonly PlanNode[];
  readonly functions: readonly ElementFunction[];
  readonly columns: readonly ArrayColumn[] | undefined;
  /** Of a data service: the calls before it. `nodes` are those that follow. */
  readonly service?: { readonly before: readonly PlanNode[]; readonly request: ServiceRequest } | undefined;
}

const start: Cursor = { epoch: 0, position: 0, taken: 0 };

export class Dataset<T = unknown> implements AsyncIterable<T> {
  readonly #parts: Parts;
  readonly #plan: Plan;
  readonly #meter = new Meter();
  readonly #damageLog = new DamageLog();
  readonly #memoryCache = new MemoryCache();
  #cursor: Cursor = start;
  /** Fixed by the first start, or by a state. */
  #lanes: number | undefined;
  /** What all ranks have told each other at the last commit; undefined if a batch was taken since. */
  #agreed: Partial<Cursor> | undefined;
  #index: readonly IndexedFile[] | undefined;
  /** Not compared with the files yet. */
  #restored: DataState | undefined;
  /** Where the batches come from a data service. */
  readonly #service: ServiceData | undefined;
  /** The iterator that moves the dataset on. */
  #current: { end(): Promise<void> } | undefined;

  private constructor(parts: Parts) {
    this.#parts = parts;
    const { service } = parts;
    this.#plan = normalise(service?.before ?? parts.nodes);
    if (service !== undefined) {
      const { nodes: after, functions } = parts;
      const { before: nodes, request } = service;
      this.#service = new ServiceData({ nodes, after, functions, request, meter: this.#meter });
    }
    Object.defineProperty(this, shardKey, { value: this.#plan.source.settings.shard });
    Object.defineProperty(this, throughService, {
      value: (request: ServiceRequest) => this.#through(request),
    });
    becomeResumable<DataPlace | ServicePlace | undefined>(this, {
      place: () => this.#place(),
      agree: () => this.#agree(),
      resumeAt: (place) => this.#resumeAt(place),
    });
  }

  /** For sources. */
  static create<T>(source: SourceNode, columns?: readonly ArrayColumn[]): Dataset<T> {
    return new Dataset({ nodes: [source], functions: [], columns });
  }

  /** Replaces each element by what the function returns. */
  map<R = unknown>(fn: Fn<T, R>): Dataset<R> {
    return this.#withFunction('map', fn);
  }

  /** Keeps the elements for which the function returns a true value. */
  filter(fn: Fn<T, unknown>): Dataset<T> {
    return this.#withFunction('filter', fn);
  }

  /** Replaces each element by those of the list that the function returns. */
  flatMap<R = unknown>(fn: Fn<T, Iterable<R>>): Dataset<R> {
    return this.#withFunction('flatMap', fn);
  }

  /** Parses records as tf.train.Example. */
  parseExample<E = Record<string, Tensor>>(features: Features): Dataset<E> {
    checkFeatures(features, 'parseExample()');
    return this.#with({ node: 'parseExample', features: features as unknown as Json });
  }

  /** Parses records as tf.train.SequenceExample. */
  parseSequenceExample<E = Record<string, Tensor>>(context: Features, sequence: Features): Dataset<E> {
    checkFeatures(context, 'parseSequenceExample(): context');
    checkFeatures(sequence, 'parseSequenceExample(): sequence');
    return this.#with({ node: 'parseSequenceExample', features: { context, sequence } as unknown as Json });
  }

  /** Another order in each epoch: `pool` records are mixed with each other; 'all' is a true permutation. */
  shuffle(pool: number | 'all', options: { seed?: number | undefined } = {}): Dataset<T> {
    checkNames(options, ['seed'], 'shuffle()');
    const { seed = 0 } = options;
    if (pool !== 'all') checkWhole(pool, 1, 'shuffle()', 'pool');
    if (!Number.isSafeInteger(seed))
      throw invalid('shuffle()', `seed is a whole number, not ${describe(seed)}`);
    return this.#with({ node: 'shuffle', pool, seed });
  }

  /** Goes through the data several times in one pass. Batches never mix epochs. */
  repeat(epochs: number = Number.POSITIVE_INFINITY): Dataset<T> {
    if (epochs !== Number.POSITIVE_INFINITY) checkWhole(epochs, 1, 'repeat()', 'epochs');
    return this.#with({ node: 'repeat', epochs: Number.isFinite(epochs) ? epochs : null });
  }

  /** The first `count` samples of all ranks together; after batch(), the first batches of each rank. */
  take(count: number): Dataset<T> {
    checkWhole(count, 0, 'take()', 'count');
    return this.#with({ node: 'take', count });
  }

  /** Leaves out the first `count` samples; after batch(), batches. */
  skip(count: number): Dataset<T> {
    checkWhole(count, 0, 'skip()', 'count');
    return this.#with({ node: 'skip', count });
  }

  /**
   * Keeps elements, so that later epochs neither read nor compute them again: in memory, or in a folder of this machine, which later
   * jobs use too. What follows runs in the main thread.
   */
  cache(where: string = 'memory'): Dataset<T> {
    if (typeof where !== 'string' || where === '' || !isLocal(where)) {
      throw invalid('cache()', `expected 'memory' or a folder of this machine, not ${describe(where)}`);
    }
    return this.#with({ node: 'cache', where });
  }

  /** How many batches are computed ahead; 'auto' (the default): as many as the training loop needs, within the memory limit. */
  prefetch(batches: number | 'auto'): Dataset<T> {
    if (batches !== 'auto') checkWhole(batches, 1, 'prefetch()', 'batches');
    return this.#with({ node: 'prefetch', batches });
  }

  /** Puts `size` samples of each rank together. */
  batch(size: number, options: BatchOptions = {}): Dataset<BatchOf<T>> {
    checkNames(options, ['dropRemainder', 'globalSize'], 'batch()');
    return this.#with({ node: 'batch', ...checkedBatch(size, options, 'batch()') });
  }

  /** batch() of values of different lengths: they are padded to the longest one. */
  paddedBatch(size: number, options: PaddedBatchOptions = {}): Dataset<BatchOf<T>> {
    checkNames(options, ['dropRemainder', 'globalSize', 'padding'], 'paddedBatch()');
    const { padding = {} } = options;
    return this.#with({ node: 'paddedBatch', ...checkedBatch(size, options, 'paddedBatch()'), padding });
  }

  /** Batches of samples whose column `key` has a similar length, padded to the longest one. */
  bucketByLength(key: string, options: BucketOptions): Dataset<BatchOf<T>> {
    return this.#with({ node: 'bucketByLength', key, ...checkedBuckets(options) });
  }

  /** transform(this): to give a name to a part of a pipeline. */
  apply<R>(transform: (dataset: this) => R): R {
    return transform(this);
  }

  /** What was called so far runs on the compute workers of a data service; see the function sendToDataService(). */
  sendToDataService(
    config: TfDataServiceConfig,
    rank?: number,
    size?: number,
    options: Omit<SendToDataServiceOptions, 'rank' | 'size'> = {},
  ): Dataset<T> {
    return this.#through(sendRequest(config, { ...options, rank, size }));
  }

  /** Batches of an epoch for this rank, as far as it is known: for files, from the first iteration on. */
  get size(): number | null {
    if (this.#service !== undefined) return this.#service.size;
    const files = this.#knownFiles();
    if (files === undefined) return null;
    const { steps } = orderOf(this.#plan, files, this.#placeOfRank(), this.#lanes);
    const perEpoch = stepsPerEpoch(steps);
    if (perEpoch === null) return null;
    return Math.min(perEpoch * this.#plan.epochs, this.#plan.total);
  }

  /**
   * Starts where the dataset is. A dataset has one iterator at a time; a new one ends the one before. Collective for files that
   * ranks share: its first next() compares which rank knows the files.
   */
  iterator(): DataIterator<T> {
    const own = { end: async (): Promise<void> => {} };
    return new DataIterator<T>({
      open: () => this.#open(own),
      isCurrent: () => this.#current === own,
      takeEnd: (end) => {
        own.end = end;
      },
    });
  }

  [Symbol.asyncIterator](): AsyncIterator<T, undefined, undefined> {
    return this.iterator();
  }

  /**
   * Where the training loop is: after the last batch it has taken. JSON, equal on all ranks, valid for any number of them. Collective
   * for pipelines with filter() or flatMap(), and before the first iteration.
   */
  async state(): Promise<DataState> {
    const { noState } = this.#plan;
    if (noState !== undefined) {
      throw new HorovodError(
        'ERR_HVD_UNSUPPORTED',
        `state(): this pipeline has no state, because ${noState}.`,
      );
    }
    if (this.#service !== undefined) return this.#service.state();
    const files = await this.#files();
    const { steps } = orderOf(this.#plan, files, this.#placeOfRank(), this.#lanes);
    const { epoch, position, taken } = this.#cursor;
    const shared = this.#plan.isUncounted ? merged(await this.#allItems()) : { epoch };
    return {
      v: 1,
      plan: fingerprintOfPlan(this.#parts.nodes),
      index: fingerprintOfFiles(files).digests,
      seed: this.#plan.seed,
      lanes: steps.lanes.count,
      position,
      ...(Number.isFinite(this.#plan.total) ? { taken } : {}),
      ...shared,
    };
  }

  /** Goes to the place of a state: the next iterator starts there. Call it on all ranks. */
  restore(state: DataState): void {
    const nodes = this.#parts.service?.before ?? this.#parts.nodes;
    const checked = checkState(state, { plan: fingerprintOfPlan(nodes) });
    if (this.#service !== undefined) {
      this.#service.restore(checked);
      this.#abandon();
      return;
    }
    this.#restored = checked;
    const { epoch, position, taken = 0, items, inner, lanes } = checked;
    this.#resumeAt({ epoch, position, taken, items, inner, lanes });
  }

  /** What this rank knows of the speed of its data. */
  metrics(): DataMetrics {
    return this.#meter.read();
  }

  #with<R>(node: PlanNode, functions = this.#parts.functions): Dataset<R> {
    const { service, nodes } = this.#parts;
    if (service !== undefined) checkAfterService(node, service.request.call);
    return new Dataset<R>({ ...this.#parts, nodes: [...nodes, node], functions });
  }

  #withFunction<R>(node: 'map' | 'filter' | 'flatMap', fn: unknown): Dataset<R> {
    if (isReference(fn)) return this.#with({ node, fn });
    if (typeof fn !== 'function') {
      throw invalid(`${node}()`, `expected a function or exported(module, name), not ${describe(fn)}`);
    }
    const { functions } = this.#parts;
    const local: NodeFunction = { kind: 'local', place: functions.length, name: fn.name };
    return this.#with({ node, fn: local }, [...functions, fn as ElementFunction]);
  }

  #through(request: ServiceRequest): Dataset<T> {
    const { nodes: before, functions, service } = this.#parts;
    if (service !== undefined) throw invalid(request.call, 'this dataset comes from a data service already');
    checkForService(before, request.call);
    return new Dataset<T>({ nodes: [], functions, columns: undefined, service: { before, request } });
  }

  async #open(own: { end(): Promise<void> }): Promise<Run> {
    await this.#current?.end();
    this.#current = own;
    if (this.#service !== undefined) return this.#service.open();
    const settings = readSettings(processEnvironment());
    const files = await this.#files();
    const place = this.#placeOfRank();
    const { steps } = orderOf(this.#plan, files, place, this.#lanes);
    if (this.#plan.isUncounted && steps.size > steps.lanes.count) {
      const { node } = this.#plan.source;
      throw new HorovodError(
        'ERR_HVD_INVALID_ARGUMENT',
        this.#plan.isStreamed
          ? `${node}() has ${steps.lanes.count} ${node === 'moduleDataset' ? 'parts' : 'files'}, which are not counted, and ${steps.size} ranks need one each. ${node === 'moduleDataset' ? `Give it parts: ${steps.size} or more.` : "Leave index: 'none' out, or write more files."}`
          : `this pipeline was started with ${steps.lanes.count} lanes, and ${steps.size} ranks need one each. Start it with lanes: ${steps.size} or more.`,
      );
    }
    this.#lanes = steps.lanes.count;
    return openRun({
      plan: this.#plan,
      functions: this.#parts.functions,
      columns: this.#parts.columns,
      files,
      place,
      lanes: this.#lanes,
      // Lanes of other ranks may be this rank's now.
      cursor: { ...this.#cursor, ...this.#agreed },
      cache: this.#cacheStore(files, settings),
      meter: this.#meter,
      watch: openContext()?.data,
      onDamaged: (records) =>
        this.#damageLog.note(records, () => openContext()?.log ?? createLog(settings, settings.rank)),
      settings,
      fileSystems: defaultFiles(),
      onTaken: (cursor) => {
        if (this.#current !== own) return;
        this.#cursor = cursor;
        this.#agreed = undefined;
      },
    });
  }

  /** The files of this rank. Collective where ranks share them. */
  async #files(): Promise<readonly IndexedFile[]> {
    const known = this.#knownFiles();
    const { source } = this.#plan;
    const settings = readSettings(processEnvironment());
    const format = formatOf(source, settings);
    if (format === undefined || format.kind === 'parts') return known as readonly IndexedFile[];
    const { rank, size } = this.#placeOfRank();
    const isShared = this.#isShared();
    this.#index = await shareIndex(
      {
        source,
        format,
        files: defaultFiles(),
        cacheFolder: settings.dataCache,
        rank: isShared ? rank : 0,
        size: isShared ? size : 1,
      },
      this.#index,
    );
    if (this.#restored !== undefined) checkRestored(this.#restored, this.#index);
    this.#restored = undefined;
    return this.#knownFiles() as readonly IndexedFile[];
  }

  #knownFiles(): readonly IndexedFile[] | undefined {
    const { source } = this.#plan;
    if (source.node === 'moduleDataset') return partFiles(source);
    const rows = source.format['rows'];
    if (source.paths.length === 0 && typeof rows === 'number') return [memoryFile(rows)];
    const isDivided = source.settings.shard === 'files' && !this.#plan.isStreamed;
    if (!isDivided || this.#index === undefined) return this.#index;
    const { rank, size } = this.#placeOfRank();
    let first = 0;
    return this.#index
      .filter((_, place) => place % size === rank)
      .map((file) => {
        const own = { ...file, first };
        first += file.records;
        return own;
      });
  }

  #cacheStore(files: readonly IndexedFile[], settings: Settings): CacheStore {
    const cache = this.#plan.stages.find(({ node }) => node === 'cache') as CacheNode | undefined;
    if (cache === undefined || cache.where === 'memory') return this.#memoryCache;
    const folder = join(pathOf(cache.where), fingerprintOfCache(this.#parts.nodes, files));
    return new FolderCache(folder, recordKernels(settings));
  }

  /** Whether the ranks of the job divide this data set among them, and so can ask each other. */
  #isShared(): boolean {
    const { shard, rank } = this.#plan.source.settings;
    return shard !== 'none' && rank === null && (openContext()?.world.size ?? 1) > 1;
  }

  #placeOfRank(): Place {
    const { shard, rank, size } = this.#plan.source.settings;
    if (shard === 'none') return { rank: 0, size: 1 };
    if (rank !== null && size !== null) return { rank, size };
    const world = openContext()?.world;
    return { rank: world?.rank ?? 0, size: world?.size ?? 1 };
  }

  /** For elastic states; within a job, what is read does not change. */
  #place(): DataPlace | ServicePlace | undefined {
    const { noState } = this.#plan;
    if (noState !== undefined) {
      throw new HorovodError(
        'ERR_HVD_UNSUPPORTED',
        `a dataset of an elastic state needs a state, and this pipeline has none, because ${noState}.`,
      );
    }
    if (this.#service !== undefined) return this.#service.place();
    return { ...this.#cursor, ...this.#agreed, lanes: this.#lanes };
  }

  /** Each rank knows how far its own lanes are; after this, all know it of all, until the next batch. */
  #agree(): void {
    if (this.#service !== undefined) {
      this.#service.agree();
      return;
    }
    if (!this.#plan.isUncounted || this.#plan.noState !== undefined || !this.#isShared()) return;
    this.#agreed = merged(allgatherObjectSync(this.#ownItems(), { name: 'horovod.data.commit' }));
  }

  async #allItems(): Promise<RankItems[]> {
    const own = this.#ownItems();
    return this.#isShared() ? await allgatherObject(own, { name: 'horovod.data.state' }) : [own];
  }

  #ownItems(): RankItems {
    const { items, inner, epoch } = this.#cursor;
    const files = this.#knownFiles();
    if (files === undefined) return { items, inner, epoch, first: undefined };
    const { steps } = orderOf(this.#plan, files, this.#placeOfRank(), this.#lanes);
    return { items, inner, epoch, first: itemsOfEpochs(steps.lanes, epoch) };
  }

  #resumeAt(place: DataPlace | ServicePlace | undefined): void {
    if (this.#service !== undefined) this.#service.resumeAt(place as ServicePlace | undefined);
    else {
      const { lanes, ...cursor } = place as DataPlace;
      this.#cursor = cursor;
      this.#agreed = undefined;
      this.#lanes = lanes ?? this.#lanes;
    }
    this.#abandon();
  }

  /** The iterator is of an earlier place. */
  #abandon(): void {
    const old = this.#current;
    this.#current = undefined;
    old?.end().catch(() => {});
  }
}

interface DataPlace extends Cursor {
  readonly lanes: number | undefined;
}
