// What a compute worker does for one job: it finds the files, divides the epoch into groups, and makes the batches of leases. What is
// in a batch depends on its name alone, (epoch, group, ordinal), so any worker can make it, again if it must.

import { join } from 'node:path';
import { HorovodError } from '../../errors.ts';
import { pathOf } from '../../files/location.ts';
import type { Files } from '../../files/registry.ts';
import type { Settings } from '../../settings/table.ts';
import { BusyTimes } from '../execute/busy-times.ts';
import { shareIndex } from '../execute/file-indexes.ts';
import { FolderCache } from '../execute/folder-cache.ts';
import type { Iteration } from '../execute/iteration.ts';
import { type CacheStore, MemoryCache } from '../execute/memory-cache.ts';
import { partFiles } from '../execute/module-parts.ts';
import { type IndexedFile, memoryFile } from '../execute/pieces.ts';
import { orderOf, ownsBatches } from '../execute/run.ts';
import { SharedRun } from '../execute/shared-run.ts';
import { formatOf } from '../execute/source-formats.ts';
import type { Cursor, Step } from '../execute/steps.ts';
import { keyOf } from '../order/random.ts';
import { fingerprintOfCache, fingerprintOfFiles } from '../plan/fingerprint.ts';
import type { CacheNode, PlanNode } from '../plan/nodes.ts';
import { normalise, type Plan } from '../plan/normalise.ts';
import { recordKernels } from '../record-kernels.ts';
import { type JobPlan, loadablePlan } from './job-plan.ts';
import {
  type Counted,
  groupLengths,
  type Layout,
  lanesOfGroup,
  lanesPerGroup,
  placeOfGroup,
  positionsOf,
} from './layout.ts';

export interface ProducerOptions {
  readonly plan: JobPlan;
  /** The folder of --modules. */
  readonly modules: string;
  /** Null: to be chosen. */
  readonly layout: Layout | null;
  readonly isParallel: boolean;
  /** How many workers there are to be. */
  readonly workers: number;
  readonly settings: Settings;
  readonly fileSystems: Files;
  /** Memory for batches. Default: ordinary memory. */
  readonly allocate?: ((bytes: number) => ArrayBuffer) | undefined;
}

export interface LeaseWork {
  readonly epoch: number;
  readonly group: number;
  readonly from: number;
  readonly to: number;
  readonly start?: unknown;
  readonly signal: AbortSignal;
}

/** In the order of ordinals. `value` undefined: all of its records are damaged. */
export type Product =
  | { readonly ordinal: number; readonly value: unknown; readonly behind?: Behind }
  | { readonly endsAt: number };

/** Where the lanes of an uncounted group stand behind a batch. */
interface Behind {
  readonly items: readonly number[];
  readonly inner: readonly number[];
}

/** An uncounted group that is gone through from batch to batch. */
interface GroupRun {
  readonly iteration: Iteration;
  cursor: Cursor;
  /** The ordinal that comes next. */
  next: number;
}

const maxParts = 256;
const minGroups = 16;

export class Producer {
  readonly layout: Layout;
  /** Of each group; null: known when they have been made. */
  readonly lengths: readonly (number | null)[];
  /** Digests of the files. */
  readonly index: readonly string[];
  readonly #options: ProducerOptions;
  readonly #nodes: readonly PlanNode[];
  readonly #plan: Plan;
  readonly #files: readonly IndexedFile[];
  readonly #counted: Counted;
  /** By copy. */
  readonly #runs = new Map<number, Promise<SharedRun>>();
  /** Those of them that are open. */
  readonly #open: SharedRun[] = [];
  /** By epoch and group. */
  readonly #groups = new Map<string, GroupRun>();
  #isClosed = false;

  static async prepare(options: ProducerOptions): Promise<Producer> {
    const nodes = loadablePlan(options.plan, options.modules);
    const plan = normalise(nodes);
    return new Producer(options, nodes, plan, await filesOf(plan, options));
  }

  private constructor(
    options: ProducerOptions,
    nodes: readonly PlanNode[],
    plan: Plan,
    files: readonly IndexedFile[],
  ) {
    this.#options = options;
    this.#nodes = nodes;
    this.#plan = plan;
    this.#files = files;
    const { workers, isParallel } = options;
    this.layout = options.layout ?? layoutFor(plan, files, workers, isParallel ? workers : 1);
    const { lanes, groups, copies } = this.layout;
    const { steps } = orderOf(plan, files, { rank: 0, size: 1 }, lanes);
    const { batch } = plan;
    this.#counted = {
      length: steps.lanes.length,
      batchSize:
        batch === undefined || batch.node === 'bucketByLength' ? 1 : (batch.globalSize ?? batch.size),
      dropRemainder: batch !== undefined && batch.node !== 'bucketByLength' && batch.dropRemainder,
    };
    this.lengths = plan.isUncounted
      ? Array.from({ length: copies }, () => [...new Array<null>(groups).fill(null), 0]).flat()
      : groupLengths(this.layout, this.#counted);
    this.index = fingerprintOfFiles(files).digests;
  }

  /** Nobody else keeps its batches: their memory may be used again. */
  get ownsBatches(): boolean {
    return ownsBatches(this.#plan);
  }

  /** The batches of a lease. Ends early without an error when the signal aborts. */
  async *make(work: LeaseWork): AsyncGenerator<Product, void, undefined> {
    const isRepeat = work.group === this.lengths.length;
    if (isRepeat) {
      for (let ordinal = work.from; ordinal < work.to && !work.signal.aborted; ordinal++)
        yield { ordinal, value: await this.#makeAgain(work.epoch, ordinal) };
    } else if (this.#plan.isUncounted) yield* this.#makeUncounted(work);
    else yield* this.#makeCounted(work);
  }

  /** Nothing that was begun is of use any more. */
  forget(): void {
    this.#groups.clear();
  }

  /** By stage: the milliseconds in which it was busy, divided by how many threads run it. */
  busyTimes(): BusyTimes {
    const times = new BusyTimes();
    for (const run of this.#open) times.addAll(Object.fromEntries(run.busyMs()));
    return times;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#groups.clear();
    for (const opening of this.#runs.values()) await (await opening.catch(() => undefined))?.close();
  }

  async *#makeCounted({
    epoch,
    group,
    from,
    to,
    signal,
  }: LeaseWork): AsyncGenerator<Product, void, undefined> {
    const run = await this.#runOf(placeOfGroup(group, this.layout).copy);
    const steps = Array.from({ length: to - from }, (_, at): Step => {
      const positions = positionsOf(group, from + at, this.layout, this.#counted);
      const mark = { position: from + at };
      return { epoch, positions, markAt: () => mark, weight: 1, globalSize: positions.length };
    });
    const iteration = run.iterate({
      place: { rank: 0, size: 1 },
      cursor: { epoch, position: 0, taken: 0 },
      given: steps,
      onTaken: () => {},
    });
    let ordinal = from;
    while (ordinal < to && !signal.aborted) {
      const delivered = await iteration.next();
      // Batches of damaged records come to nothing.
      const at = delivered?.position ?? to;
      for (; ordinal < at && !signal.aborted; ordinal++) yield { ordinal, value: undefined };
      if (delivered === undefined) return;
      yield { ordinal, value: delivered.value };
      ordinal += 1;
    }
  }

  async *#makeUncounted(work: LeaseWork): AsyncGenerator<Product, void, undefined> {
    const { epoch, group, from, to, signal } = work;
    const key = `${epoch} ${group}`;
    let run = this.#groups.get(key);
    if (run?.next !== from) run = await this.#startGroup(work);
    this.#groups.delete(key);
    while (!signal.aborted) {
      const delivered = await run.iteration.next();
      if (delivered === undefined) {
        // Whoever skipped may have skipped beyond the end.
        yield { endsAt: run.next };
        return;
      }
      const ordinal = run.next;
      run.next += 1;
      if (ordinal < from) continue;
      yield { ordinal, value: delivered.value, ...this.#behindOf(run, group) };
      if (run.next < to) continue;
      for (const each of this.#groups.keys())
        if (Number.parseInt(each, 10) < epoch) this.#groups.delete(each);
      this.#groups.set(key, run);
      return;
    }
  }

  async #startGroup({ epoch, group, from, start }: LeaseWork): Promise<GroupRun> {
    const { copy, group: place } = placeOfGroup(group, this.layout);
    const shared = await this.#runOf(copy);
    const { lanes, groups } = this.layout;
    let cursor: Cursor = { epoch, position: 0, taken: 0 };
    const behind = start as Behind | undefined;
    if (behind !== undefined) {
      const [first, end] = lanesOfGroup(place, this.layout);
      if (behind.items.length !== end - first) throw new Error('a lease of another layout');
      const items = new Array<number>(lanes).fill(0);
      const inner = new Array<number>(lanes).fill(0);
      for (let lane = first; lane < end; lane++) {
        items[lane] = behind.items[lane - first] as number;
        inner[lane] = behind.inner[lane - first] ?? 0;
      }
      cursor = { ...cursor, items, inner };
    }
    const run: { iteration?: Iteration; cursor: Cursor; next: number } = {
      cursor,
      next: behind === undefined ? 0 : from,
    };
    run.iteration = shared.iterate({
      place: { rank: place, size: groups },
      cursor,
      onTaken: (taken) => {
        run.cursor = taken;
      },
    });
    return run as GroupRun;
  }

  /** Buckets keep samples back, so that no place in the lanes says what is in them. */
  #behindOf({ cursor }: GroupRun, group: number): { behind?: Behind } {
    if (this.#plan.batch?.node === 'bucketByLength' || cursor.items === undefined) return {};
    const [from, to] = lanesOfGroup(placeOfGroup(group, this.layout).group, this.layout);
    return { behind: { items: cursor.items.slice(from, to), inner: (cursor.inner ?? []).slice(from, to) } };
  }

  /** Repeat number r: batch r of the epoch in the order of groups, from the beginning where that is short. */
  async #makeAgain(epoch: number, repeat: number): Promise<unknown> {
    const signal = new AbortController().signal;
    let left = repeat;
    if (!this.#plan.isUncounted) {
      const lengths = this.lengths as readonly number[];
      left %= Math.max(
        1,
        lengths.reduce((sum, length) => sum + length, 0),
      );
      for (const [group, length] of lengths.entries()) {
        if (left >= length) {
          left -= length;
          continue;
        }
        for await (const product of this.#makeCounted({ epoch, group, from: left, to: left + 1, signal }))
          return 'value' in product ? product.value : undefined;
      }
      return undefined;
    }
    for (let group = 0, isEmpty = true; ; group++) {
      if (group === this.lengths.length) {
        if (isEmpty) return undefined;
        group = 0;
      }
      if (this.lengths[group] === 0) continue;
      const run = await this.#startGroup({ epoch, group, from: 0, to: 0, signal });
      for (;;) {
        const delivered = await run.iteration.next();
        if (delivered === undefined) break;
        isEmpty = false;
        if (left-- === 0) return delivered.value;
      }
    }
  }

  #runOf(copy: number): Promise<SharedRun> {
    if (this.#isClosed) throw new HorovodError('ERR_HVD_ABORTED', 'data service: the job has ended.');
    let run = this.#runs.get(copy);
    if (run === undefined) {
      const { plan, settings, fileSystems } = this.#options;
      // Job and copy have orders of their own; a job alone has that of the plan.
      const isOwn = plan.seed !== 0 || copy !== 0;
      const seed = isOwn ? keyOf(this.#plan.seed, plan.seed, copy) : this.#plan.seed;
      run = SharedRun.open({
        plan: { ...this.#plan, seed },
        files: this.#files,
        lanes: this.layout.lanes,
        settings,
        fileSystems,
        cache: this.#cacheStore(),
        allocate: this.#options.allocate,
      });
      this.#runs.set(copy, run);
      // Whoever waits for it gets the error.
      run.then((opened) => this.#open.push(opened)).catch(() => {});
    }
    return run;
  }

  #cacheStore(): CacheStore {
    const cache = this.#plan.stages.find(({ node }) => node === 'cache') as CacheNode | undefined;
    if (cache === undefined || cache.where === 'memory') return new MemoryCache();
    const folder = join(pathOf(cache.where), fingerprintOfCache(this.#nodes, this.#files));
    return new FolderCache(folder, recordKernels(this.#options.settings));
  }
}

async function filesOf(
  plan: Plan,
  { settings, fileSystems }: ProducerOptions,
): Promise<readonly IndexedFile[]> {
  const { source } = plan;
  if (source.node === 'moduleDataset') return partFiles(source);
  const rows = source.format['rows'];
  if (source.paths.length === 0 && typeof rows === 'number') return [memoryFile(rows)];
  const format = formatOf(source, settings);
  if (format === undefined) throw new Error(`${source.node} has no files`);
  return shareIndex(
    { source, format, files: fileSystems, cacheFolder: settings.dataCache, rank: 0, size: 1 },
    undefined,
  );
}

function layoutFor(plan: Plan, files: readonly IndexedFile[], workers: number, copies: number): Layout {
  const { order } = orderOf(plan, files, { rank: 0, size: 1 }, undefined);
  const wanted = plan.source.settings.lanes;
  if (plan.isStreamed)
    return { lanes: files.length, groups: Math.min(maxParts, files.length), isByLane: true, copies };
  const enough = Math.max(minGroups, 4 * workers) * lanesPerGroup;
  if (plan.isUncounted || typeof order.pool === 'number') {
    // Stretches shorter than a few records hardly mix.
    const most =
      typeof order.pool === 'number' ? Math.max(1, Math.floor(order.pool / lanesPerGroup)) : enough;
    const lanes = wanted ?? Math.min(enough, most);
    return { lanes, groups: Math.max(1, Math.floor(lanes / lanesPerGroup)), isByLane: true, copies };
  }
  return { lanes: wanted ?? 1, groups: Math.max(minGroups, 4 * workers), isByLane: false, copies };
}
