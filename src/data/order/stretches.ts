// The order of an epoch: which record stands at which position. A *stretch* is a run of items of one lane that are mixed with
// each other and read together. Pure.

import { type Block, BlockSequence } from './blocks.ts';
import { itemOf, type Lanes, laneLength, laneOf, laneStart } from './lanes.ts';
import { type Permutation, permutation } from './permutation.ts';
import { keyOf } from './random.ts';

/** Everything the order depends on. */
export interface OrderOptions {
  readonly blocks: readonly Block[];
  readonly seed: number;
  readonly epoch: number;
  /** C. */
  readonly lanes: number;
  /** Records that are mixed with each other; 'all': a permutation of all records; undefined: as they lie in the files. */
  readonly pool: number | 'all' | undefined;
}

/** What is read at once. */
export interface Stretch {
  /** Equal for equal stretches of one epoch. */
  readonly id: number;
  /** Runs of records, in the order of places. */
  readonly runs: readonly Block[];
  readonly length: number;
}

export interface RecordPlace {
  /** Its number through all files. */
  readonly record: number;
  readonly stretch: number;
}

/** Uses of one seed. */
const uses = { blocks: 1, stretch: 2, all: 3 } as const;
/** Without shuffle, this many records are read at once at most. */
const plainStretch = 1024;

export class EpochOrder {
  readonly lanes: Lanes;
  readonly length: number;
  readonly #options: OrderOptions;
  readonly #sequence: BlockSequence;
  readonly #all: Permutation | undefined;
  readonly #stretchItems: number;
  /** Permutations of the stretches that were asked for last. */
  readonly #permutations = new Map<number, Permutation>();

  constructor(options: OrderOptions) {
    const { blocks, seed, epoch, lanes, pool } = options;
    this.#options = options;
    const isMixed = pool !== undefined && pool !== 'all';
    this.#sequence = new BlockSequence(blocks, isMixed ? keyOf(seed, epoch, uses.blocks) : undefined);
    this.length = this.#sequence.length;
    this.lanes = { count: lanes, length: this.length };
    this.#stretchItems = isMixed ? Math.max(1, Math.floor(pool / lanes)) : plainStretch;
    if (pool === 'all') this.#all = permutation(this.length, keyOf(seed, epoch, uses.all));
  }

  /** The record at a position, and the stretch it is read with. */
  at(position: number): RecordPlace {
    if (this.#all !== undefined) {
      const record = this.#all.at(position);
      return { record, stretch: record };
    }
    if (this.#options.pool === undefined) {
      return { record: this.#sequence.at(position), stretch: Math.floor(position / plainStretch) };
    }
    const [lane, item] = [laneOf(position, this.lanes), itemOf(position, this.lanes)];
    const number = Math.floor(item / this.#stretchItems);
    const stretch = number * this.lanes.count + lane;
    const first = number * this.#stretchItems;
    const place = laneStart(lane, this.lanes) + first + this.#permutationOf(stretch).at(item - first);
    return { record: this.#sequence.at(place), stretch };
  }

  /** The record at a position, for readers that need no stretch. */
  recordAt(position: number): number {
    if (this.#all !== undefined) return this.#all.at(position);
    return this.#options.pool === undefined ? this.#sequence.at(position) : this.at(position).record;
  }

  /** The stretch with this number. */
  stretch(id: number): Stretch {
    if (this.#all !== undefined) return { id, runs: [{ first: id, length: 1 }], length: 1 };
    const [start, length] = this.#placesOf(id);
    return { id, runs: this.#sequence.runs(start, length), length };
  }

  /** The stretch that is read after this one, if there is one: worth reading ahead. */
  after(id: number): number | undefined {
    if (this.#all !== undefined) return undefined;
    const next = id + (this.#options.pool === undefined ? 1 : this.lanes.count);
    return this.#placesOf(next)[1] > 0 ? next : undefined;
  }

  /** First place and number of places; none beyond the end. */
  #placesOf(id: number): [start: number, length: number] {
    if (this.#options.pool === undefined) {
      const start = id * plainStretch;
      return [start, Math.max(0, Math.min(plainStretch, this.length - start))];
    }
    const lane = id % this.lanes.count;
    const first = Math.floor(id / this.lanes.count) * this.#stretchItems;
    const length = Math.min(this.#stretchItems, laneLength(lane, this.lanes) - first);
    return [laneStart(lane, this.lanes) + first, Math.max(0, length)];
  }

  #permutationOf(stretch: number): Permutation {
    const found = this.#permutations.get(stretch);
    if (found !== undefined) return found;
    const { seed, epoch, lanes } = this.#options;
    const made = permutation(this.#placesOf(stretch)[1], keyOf(seed, epoch, uses.stretch, stretch));
    // Positions grow: one stretch of each lane is in use, and a window may cross into the next ones.
    if (this.#permutations.size > 4 * lanes) this.#permutations.clear();
    this.#permutations.set(stretch, made);
    return made;
  }
}
