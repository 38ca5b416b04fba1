// Which rank keeps which part of an optimizer's state (ZeRO-1). All variables, flat and one after the other, are one long
// vector; each rank has one *shard* of it, cut as reducescatter() cuts: equal lengths, the first ranks one element longer. A
// *piece* is the part of one variable in a shard. Pure, and the same on every rank. See docs/decisions/0017-zero-1.md.

import { boundsOf } from '../../../sharding/bounds.ts';

export interface Piece {
  /** Which variable. */
  readonly place: number;
  /** Its elements from here … */
  readonly from: number;
  /** … to before here. */
  readonly to: number;
  /** Where they begin in the shard. */
  readonly at: number;
}

export interface ShardLayout {
  /** Elements of all variables. */
  readonly total: number;
  /** Where each variable begins in the long vector. */
  readonly starts: readonly number[];
  /** Elements of this rank's shard. */
  readonly length: number;
  /** In order; variables without elements have none. */
  readonly pieces: readonly Piece[];
}

/** The layout of variables with these numbers of elements, as the member `index` of `members` sees it. */
export function layOut(sizes: readonly number[], index: number, members: number): ShardLayout {
  let total = 0;
  const starts = sizes.map((size) => {
    total += size;
    return total - size;
  });
  const { begin, end } = boundsOf(total, index, members);
  const length = end - begin;
  const pieces = sizes.flatMap((size, place): Piece[] => {
    const start = starts[place] as number;
    const from = Math.max(start, begin);
    const to = Math.min(start + size, begin + length);
    return from < to ? [{ place, from: from - start, to: to - start, at: from - begin }] : [];
  });
  return { total, starts, length, pieces };
}
