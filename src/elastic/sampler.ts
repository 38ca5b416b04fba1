// ElasticSampler: which samples this rank takes in each step, so that every sample of an epoch is used once although the number of
// ranks changes on the way. The rules are in deal.ts; this keeps the position. As a field of a state it is saved with each commit,
// as { epoch, position }.

import { becomeResumable } from '../data/resumable.ts';
import { shuffledIndices } from '../data/shuffled-indices.ts';
import { HorovodError } from '../errors.ts';
import { checkNames, invalid } from '../operations/check-options.ts';
import type { TypedArray } from '../tensor/dtype.ts';
import { describe, emptyLike } from '../tensor/tensor.ts';
import { type Dealing, type ElasticUneven, shareOf, stepsFrom, type Window, windowAt } from './deal.ts';
import { currentWorld, type World } from './world.ts';

export interface ElasticSamplerOptions {
  /** Number of samples. */
  readonly length: number;
  /** Samples of each rank per step. Default: 1, or as globalBatchSize says. */
  readonly batchSize?: number | undefined;
  /** Samples of all ranks together per step: the same for any number of ranks. */
  readonly globalBatchSize?: number | undefined;
  /** Another order in each epoch. Default: true. */
  readonly shuffle?: boolean | undefined;
  /** Of the order; the same on all ranks. Default: 0. */
  readonly seed?: number | undefined;
  /**
   * What happens where samples cannot be divided evenly. 'pad' (default): some are used twice. 'drop': fewer than one per rank
   * are left out at the end of the epoch. 'keep': shares differ by one and may be empty. 'exact': each sample once, a rank
   * without one gets any sample with weight 0; multiply the mean loss by the weight of the batch.
   */
  readonly uneven?: ElasticUneven | undefined;
}

/** What one rank takes in one step. */
export class ElasticBatch {
  readonly indices: Int32Array;
  /**
   * What to multiply this rank's mean loss with, so that the average over the ranks is the mean over all samples of the step. 1
   * where all ranks have equally many.
   */
  readonly weight: number;
  /** Samples of all ranks in this step. */
  readonly globalSize: number;
  readonly #take: SamplerParts['take'];

  constructor(indices: Int32Array, weight: number, globalSize: number, take: SamplerParts['take']) {
    this.indices = indices;
    this.weight = weight;
    this.globalSize = globalSize;
    this.#take = take;
  }

  /** The samples of this batch, from a list or typed array of all samples, or from an object of such. */
  take<T>(data: T): T {
    return this.#take(data, this.indices) as T;
  }
}

/** What samplers of a framework, and tests, replace. */
export interface SamplerParts {
  /** Who this rank is now. */
  world(): World;
  /** The samples with these indices. */
  take(data: unknown, indices: Int32Array): unknown;
  /** The order of samples in an epoch. */
  order(epoch: number): Int32Array;
  /** How many there are. */
  length(): number;
}

type Checked = ReturnType<typeof checkedOptions>;

interface Made {
  readonly version: number;
  readonly window: Window;
}

/** Deals samples by index. See ElasticFileSampler for records of files. */
export class ElasticSampler {
  readonly #options: Checked;
  readonly #parts: SamplerParts;
  #epoch = 0;
  #position = 0;
  /** Counts changes of the place: iterators and batches from before are stale. */
  #version = 0;
  #order: { epoch: number; places: Int32Array } | undefined;
  readonly #made = new WeakMap<ElasticBatch, Made>();

  constructor(options: ElasticSamplerOptions, parts: Partial<SamplerParts> = {}) {
    const checked = checkedOptions(options);
    this.#options = checked;
    this.#parts = {
      world: currentWorld,
      take: takeFrom,
      order: (epoch) => orderOf(checked, epoch),
      length: () => checked.length,
      ...parts,
    };
    becomeResumable(this, {
      place: () => ({ epoch: this.#epoch, position: this.#position }),
      resumeAt: ({ epoch, position }) => this.#goTo(epoch, position),
    });
  }

  get length(): number {
    return this.#parts.length();
  }

  get epoch(): number {
    return this.#epoch;
  }

  /** How many samples of this epoch are done, by all ranks together. */
  get position(): number {
    return this.#position;
  }

  /** Samples of this rank per step now; where shares differ, the largest share. */
  get batchSize(): number {
    return Math.ceil(this.globalBatchSize / this.#parts.world().size);
  }

  /** Samples of all ranks per step now. */
  get globalBatchSize(): number {
    return this.#dealing(this.#parts.world()).globalBatchSize;
  }

  /** Steps from here to the end of the epoch, with the ranks that there are now. */
  get stepsLeft(): number {
    return stepsFrom(this.#position, this.#dealing(this.#parts.world()));
  }

  /**
   * The batches of this rank, from the position to the end of the epoch. All ranks get equally many. Call record() when a batch is
   * done. If ranks come or go, or the sampler goes elsewhere, the iterator ends with ERR_HVD_STALE.
   */
  *batches(): Generator<ElasticBatch, void, undefined> {
    const world = this.#parts.world();
    const dealing = this.#dealing(world);
    const order = this.#orderOfEpoch();
    const version = this.#version;
    let window = windowAt(this.#position, dealing);
    while (window !== undefined) {
      if (version !== this.#version || world.membership !== this.#parts.world().membership) {
        throw new HorovodError(
          'ERR_HVD_STALE',
          'these batches are of an earlier membership or place in the data. Call batches() again; inside elastic.run() the training ' +
            'function does when it is called again.',
        );
      }
      const { places, weight } = shareOf(window, dealing, world.rank);
      const indices = Int32Array.from(places, (place) => order[place] as number);
      const batch = new ElasticBatch(indices, weight, window.length, this.#parts.take);
      this.#made.set(batch, { version, window });
      yield batch;
      window = windowAt(window.end, dealing);
    }
  }

  /** A step with this batch is done: the next commit counts it. Without a batch: the step that comes next. */
  record(batch?: ElasticBatch): void {
    const next = windowAt(this.#position, this.#dealing(this.#parts.world()));
    if (batch === undefined) {
      if (next !== undefined) this.#position = next.end;
      return;
    }
    const made = this.#made.get(batch);
    if (made === undefined) {
      throw invalid('record()', `expected a batch of this sampler, not ${describe(batch)}`);
    }
    if (made.version !== this.#version) {
      throw new HorovodError(
        'ERR_HVD_STALE',
        'record(): the batch is of an earlier membership or place in the data.',
      );
    }
    if (made.window.start !== this.#position) {
      throw invalid('record()', 'batches are recorded once each, in the order in which batches() gives them');
    }
    this.#position = made.window.end;
  }

  /** Starts an epoch, with its own order. */
  setEpoch(epoch: number): void {
    if (!Number.isInteger(epoch) || epoch < 0) {
      throw invalid('setEpoch()', `an epoch is a whole number from 0, not ${describe(epoch)}`);
    }
    this.#goTo(epoch, 0);
  }

  #goTo(epoch: number, position: number): void {
    this.#epoch = epoch;
    this.#position = position;
    this.#version += 1;
  }

  #dealing({ size }: World): Dealing {
    const { uneven, batchSize = 1, globalBatchSize = batchSize * size } = this.#options;
    return { length: this.length, uneven, size, globalBatchSize };
  }

  #orderOfEpoch(): Int32Array {
    if (this.#order?.epoch !== this.#epoch) {
      this.#order = { epoch: this.#epoch, places: this.#parts.order(this.#epoch) };
    }
    return this.#order.places;
  }
}

function orderOf({ length, seed, shuffle }: Checked, epoch: number): Int32Array {
  return shuffle
    ? shuffledIndices(length, { seed, epoch })
    : Int32Array.from({ length }, (_, place) => place);
}

function checkedOptions(options: ElasticSamplerOptions): Pick<
  ElasticSamplerOptions,
  'batchSize' | 'globalBatchSize'
> & {
  length: number;
  shuffle: boolean;
  seed: number;
  uneven: ElasticUneven;
} {
  const what = 'ElasticSampler';
  checkNames(options, ['length', 'batchSize', 'globalBatchSize', 'shuffle', 'seed', 'uneven'], what);
  const { length, batchSize, globalBatchSize, shuffle = true, seed = 0, uneven = 'pad' } = options;
  const check = (isRight: boolean, name: string, value: unknown, expected: string) => {
    if (!isRight) throw invalid(what, `${name} is ${expected}, not ${describe(value)}`);
  };
  const isCount = (value: number) => Number.isSafeInteger(value) && value >= 1;
  check(Number.isSafeInteger(length) && length >= 0, 'length', length, 'a whole number from 0');
  check(batchSize === undefined || isCount(batchSize), 'batchSize', batchSize, 'a whole number from 1');
  check(
    globalBatchSize === undefined || isCount(globalBatchSize),
    'globalBatchSize',
    globalBatchSize,
    'a whole number from 1',
  );
  if (batchSize !== undefined && globalBatchSize !== undefined) {
    throw invalid(what, 'give batchSize or globalBatchSize, not both');
  }
  check(typeof shuffle === 'boolean', 'shuffle', shuffle, 'true or false');
  check(Number.isInteger(seed), 'seed', seed, 'a whole number');
  const kinds = ['pad', 'drop', 'keep', 'exact'];
  check(kinds.includes(uneven), 'uneven', uneven, "'pad', 'drop', 'keep' or 'exact'");
  return { length, batchSize, globalBatchSize, shuffle, seed, uneven };
}

export function takeFrom(data: unknown, indices: Int32Array): unknown {
  if (ArrayBuffer.isView(data) && 'length' in data) {
    const all = data as Float32Array;
    const part = emptyLike(all as TypedArray, indices.length) as Float32Array;
    for (const [place, index] of indices.entries()) part[place] = all[index] as number;
    return part;
  }
  if (Array.isArray(data)) return Array.from(indices, (index) => (data as unknown[])[index]);
  if (typeof data === 'object' && data !== null && Object.getPrototypeOf(data) === Object.prototype) {
    return Object.fromEntries(Object.entries(data).map(([name, each]) => [name, takeFrom(each, indices)]));
  }
  throw invalid('take()', `expected a list, a typed array or an object of such, not ${describe(data)}`);
}
