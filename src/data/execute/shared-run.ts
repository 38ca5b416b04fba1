// The threads, stages and cache of a plan, for iterations over any parts of it at the same time. A compute worker opens one for each
// copy of the data, and runs its leases on it.

import type { Files } from '../../files/registry.ts';
import type { Settings } from '../../settings/table.ts';
import type { Plan } from '../plan/normalise.ts';
import { Iteration } from './iteration.ts';
import type { CacheStore } from './memory-cache.ts';
import { Meter } from './metrics.ts';
import type { IndexedFile } from './pieces.ts';
import { adviceFor, itemsOfEpochs, openFeed, orderOf, type Place, readerOf, stagesOf } from './run.ts';
import { SharedFeed } from './shared-feed.ts';
import { allocatePlain } from './stack.ts';
import type { Cursor, Step } from './steps.ts';

export interface SharedRunRequest {
  readonly plan: Plan;
  readonly files: readonly IndexedFile[];
  readonly lanes: number;
  readonly settings: Settings;
  readonly fileSystems: Files;
  readonly cache: CacheStore;
  /** Memory for batches. Default: ordinary memory. */
  readonly allocate?: ((bytes: number) => ArrayBuffer) | undefined;
}

export interface PartRequest {
  /** Where steps are not given: which of how many groups of lanes. */
  readonly place: Place;
  readonly cursor: Cursor;
  readonly given?: Iterable<Step> | undefined;
  readonly onTaken: (cursor: Cursor) => void;
}

type MainStages = Pick<ConstructorParameters<typeof Iteration>[0], 'local' | 'afterBatch' | 'beforeCache'>;
type OpenCache = ReturnType<CacheStore['open']>;

export class SharedRun {
  readonly #request: SharedRunRequest;
  readonly #feed: SharedFeed;
  readonly #stages: MainStages;
  readonly #cache: OpenCache | undefined;
  /** Of all iterations together: only what the stages do is of interest. */
  readonly #meter = new Meter();

  private constructor(
    request: SharedRunRequest,
    feed: SharedFeed,
    stages: MainStages,
    cache: OpenCache | undefined,
  ) {
    this.#request = request;
    this.#feed = feed;
    this.#stages = stages;
    this.#cache = cache;
    this.#meter.begin(undefined, adviceFor({ ...request, functions: [], columns: undefined }));
  }

  static async open(request: SharedRunRequest): Promise<SharedRun> {
    const { plan, files, lanes } = request;
    const { order } = orderOf(plan, files, { rank: 0, size: 1 }, lanes);
    const opening = { ...request, functions: [], columns: undefined };
    const isGrouped = plan.isUncounted && plan.batch !== undefined;
    const cacheAt = plan.stages.findIndex(({ node }) => node === 'cache');
    const from = cacheAt >= 0 ? cacheAt + 1 : plan.localFrom;
    const stages = {
      beforeCache: cacheAt >= 0 ? await stagesOf(opening, plan.localFrom, cacheAt) : undefined,
      local: await stagesOf(opening, from, isGrouped ? plan.batchAt : plan.stages.length),
      afterBatch: isGrouped ? await stagesOf(opening, plan.batchAt + 1, plan.stages.length) : undefined,
    };
    const cache = cacheAt >= 0 ? request.cache.open(readerOf(opening, order, true)) : undefined;
    const feed = await openFeed(opening, order, { allocate: request.allocate ?? allocatePlain });
    return new SharedRun(request, new SharedFeed(feed), stages, cache);
  }

  iterate({ place, cursor, given, onTaken }: PartRequest): Iteration {
    const { plan, files, lanes, settings } = this.#request;
    const { steps } = orderOf(plan, files, place, lanes);
    return new Iteration({
      ...this.#stages,
      steps: { ...steps, plan: { ...plan, prefetch: 2 } },
      feed: this.#feed.part(),
      cache: this.#cache,
      meter: this.#meter,
      memoryBytes: settings.dataMemoryMb * 2 ** 20,
      cursor: plan.isUncounted
        ? {
            ...cursor,
            items: cursor.items ?? itemsOfEpochs(steps.lanes, cursor.epoch),
            inner: cursor.inner ?? new Array<number>(steps.lanes.count).fill(0),
          }
        : cursor,
      given,
      onTaken,
    });
  }

  /** By stage: the time in which it was busy, divided by how many threads run it. */
  busyMs(): ReadonlyMap<string, number> {
    return this.#meter.busyMs();
  }

  async close(): Promise<void> {
    await this.#feed.close();
    this.#cache?.close();
  }
}
