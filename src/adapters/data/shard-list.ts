// Divides lists, typed arrays and plain indices among ranks; for every framework, and without one. The rules are in data/uneven.ts.
// Shuffle first, with a seed common to all ranks, then shard: otherwise ranks deal from different decks and some samples are seen
// twice, others never. A digest of what is divided is compared later (divergence/data-notes.ts).

import { checkedShard, placesOf, type Shard, type ShardOptions } from '../../data/uneven.ts';
import { invalid } from '../../operations/check-options.ts';
import type { TypedArray } from '../../tensor/dtype.ts';
import { describe } from '../../tensor/tensor.ts';
import { currentContext } from '../context.ts';
import { digestOfList, notesOf } from '../divergence/data-notes.ts';

/** This rank's part of a typed array or list. */
export function shard<A extends TypedArray>(data: A, options?: ShardOptions): A;
export function shard<T>(data: readonly T[], options?: ShardOptions): T[];
export function shard(data: unknown, options: ShardOptions = {}): unknown {
  const what = 'shard()';
  const given = checkedShard(options, what);
  if (isList(data)) return shardList(data, given);
  throw invalid(what, `expected a list or a typed array, not ${describe(data)}`);
}

export function isList(data: unknown): data is TypedArray | readonly unknown[] {
  return Array.isArray(data) || (ArrayBuffer.isView(data) && 'length' in data);
}

export function shardList(data: TypedArray | readonly unknown[], given: Shard): unknown {
  noteData(given, labelOf('shard()', data.length), () => digestOfList(data));
  const places = placesOf(data.length, given);
  if (Array.isArray(data)) return Array.from(places, (place) => data[place]);
  const part = (data as Float32Array).slice(0, places.length);
  for (const [place, from] of places.entries()) part[place] = (data as Float32Array)[from] as number;
  return part;
}

/** This rank's part of an order of samples: of shuffledIndices(), or of 0 … length − 1. */
export function shardIndices(order: number | ArrayLike<number>, options: ShardOptions = {}): Int32Array {
  const what = 'shardIndices()';
  const given = checkedShard(options, what);
  if (typeof order === 'number' && Number.isSafeInteger(order) && order >= 0) return placesOf(order, given);
  if (typeof order === 'object' && order !== null && Number.isSafeInteger(order.length)) {
    checkOrder(order, what);
    noteData(given, labelOf(what, order.length), () => digestOfList(order));
    return placesOf(order.length, given).map((place) => order[place] as number);
  }
  throw invalid(what, `expected a number of samples or a list of their places, not ${describe(order)}`);
}

/** All of it, not only this rank's part: an error on one rank alone would leave the others waiting. */
export function checkOrder(order: ArrayLike<number>, what: string, samples: number = 2 ** 31): void {
  for (let i = 0; i < order.length; i += 1) {
    const place: unknown = order[i];
    if (typeof place === 'number' && Number.isInteger(place) && place >= 0 && place < samples) continue;
    throw invalid(
      what,
      `the order contains ${describe(place)}; places are whole numbers from 0 to ${samples - 1}`,
    );
  }
}

export function labelOf(what: string, samples: number): string {
  return `${what} of ${samples} samples`;
}

/** Remembers what is divided among the ranks, if they can be compared. */
export function noteData({ isOfAllRanks }: Shard, label: string, digest: () => number): void {
  if (!isOfAllRanks) return;
  const context = currentContext();
  if (context.world.size > 1 && context.checksDivergence) notesOf(context).add(label, digest());
}
