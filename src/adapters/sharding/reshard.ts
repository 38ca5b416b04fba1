// How a vector that is cut into shards becomes one that is cut for another number of ranks: which elements travel from which rank to
// which. Some shards may be held by several ranks, or by another than the one they were cut for. Pure, and the same on every rank.

import { type Bounds, boundsOf } from './bounds.ts';

/** Elements of the vector that one rank sends to another, or keeps. */
export interface Transfer {
  /** Rank that has them. */
  readonly from: number;
  /** Rank that needs them. */
  readonly to: number;
  /** The shard they are in now. */
  readonly shard: number;
  /** The first of them … */
  readonly begin: number;
  /** … and the one after the last, counted in the whole vector. */
  readonly end: number;
}

/**
 * The transfers after which each of `members` ranks has its new shard, by receiver and then by place. `holders`: for each old
 * shard, the ranks that have it; a rank that needs elements of a shard that it has itself is sent nothing, and the first holder
 * sends to the others. `bounds`: how the vector is cut. Costs one alltoall of at most the whole vector.
 */
export function reshard(
  total: number,
  holders: readonly (readonly number[])[],
  members: number,
  bounds: Bounds = boundsOf,
): Transfer[] {
  const old = holders.map((_, shard) => bounds(total, shard, holders.length));
  return Array.from({ length: members }, (_, to) => to).flatMap((to) => {
    const wanted = bounds(total, to, members);
    return old.flatMap((has, shard): Transfer[] => {
      const [begin, end] = [Math.max(has.begin, wanted.begin), Math.min(has.end, wanted.end)];
      if (begin >= end) return [];
      const having = holders[shard] as readonly number[];
      const from = having.includes(to) ? to : having[0];
      if (from === undefined) throw new Error(`nobody has shard ${shard}`);
      return [{ from, to, shard, begin, end }];
    });
  });
}
