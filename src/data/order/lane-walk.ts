// The positions of ranks whose steps are not of equal length: where samples are filtered or multiplied, nobody knows how many
// positions a batch needs. A lane then belongs to one rank, and each lane has a position of its own: its *items done*. A rank
// takes the item of its lanes that comes first in the epoch, so one rank alone sees the order of positions. Pure.

import { type Lanes, laneLength, positionOf } from './lanes.ts';
import { permutation } from './permutation.ts';

/** The lanes of one rank: neighbours, and equally many as far as possible. */
export function lanesOfRank(count: number, rank: number, size: number): number[] {
  const [from, to] = [Math.floor((rank * count) / size), Math.floor(((rank + 1) * count) / size)];
  return Array.from({ length: to - from }, (_, each) => from + each);
}

/**
 * Where nobody has counted the records, each file or part is a lane of this length, which is never reached: so items done since the
 * first epoch stay one number. With 2^20 parts, positions are exact integers still.
 */
export const streamLength: number = 2 ** 32;

/** The same lanes in the order in which the rank reads them from beginning to end; permuted with a key. */
export function lanesInOrder(count: number, rank: number, size: number, key?: number): number[] {
  const own = lanesOfRank(count, rank, size);
  if (key === undefined) return own;
  const order = permutation(own.length, key);
  return own.map((_, place) => own[order.at(place)] as number);
}

export class LaneWalk {
  readonly #lanes: Lanes;
  readonly #own: readonly number[];
  readonly #done: number[];

  /** `done`: items done of every lane. */
  constructor(lanes: Lanes, own: readonly number[], done: readonly number[]) {
    this.#lanes = lanes;
    this.#own = own;
    this.#done = [...done];
  }

  /** The next position of this rank; undefined at the end of its lanes. */
  next(): number | undefined {
    let [best, bestItem] = [-1, Number.POSITIVE_INFINITY];
    for (const lane of this.#own) {
      const item = this.#done[lane] as number;
      if (item >= bestItem || item >= laneLength(lane, this.#lanes)) continue;
      [best, bestItem] = [lane, item];
    }
    if (best < 0) return undefined;
    this.#done[best] = bestItem + 1;
    return positionOf(best, bestItem, this.#lanes);
  }
}
