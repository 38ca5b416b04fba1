// How far the ranks are in data that is filtered: each rank knows it of its own lanes. Pure.

import { lanesOfRank } from './order/lane-walk.ts';

export interface RankItems {
  readonly items: readonly number[] | undefined;
  readonly inner: readonly number[] | undefined;
  readonly epoch: number;
  /** Items done at the beginning of the epoch; undefined as long as the files are not known. */
  readonly first: readonly number[] | undefined;
}

/** Every rank knows how far its own lanes are. A rank that has not started is where the epoch begins. */
export function merged(ranks: readonly RankItems[]): {
  epoch: number;
  items?: number[];
  inner?: number[];
} {
  const epoch = Math.min(...ranks.map((rank) => rank.epoch));
  const known = ranks.find(({ items, first }) => items !== undefined && first !== undefined);
  if (known?.items === undefined) return { epoch };
  const items: number[] = [];
  const inner: number[] = [];
  for (const [rank, each] of ranks.entries()) {
    const done = each.items ?? each.first ?? known.first;
    for (const lane of lanesOfRank(known.items.length, rank, ranks.length)) {
      items[lane] = done?.[lane] ?? 0;
      inner[lane] = each.inner?.[lane] ?? 0;
    }
  }
  return { epoch, items, inner };
}
