// Search by name: which names match, and where their slices are, in the order of time.

import type { TimelineData } from '../timeline-data.ts';
import { fromOf, type Place, type RankRows } from './rows.ts';

export interface Found {
  readonly text: string;
  /** By index of the name: 1 if it matches. */
  readonly names: Uint8Array;
  readonly places: readonly Place[];
}

/** Undefined: nothing is searched for. Letters match in either case. */
export function search(data: TimelineData, ranks: readonly RankRows[], text: string): Found | undefined {
  const wanted = text.trim().toLowerCase();
  if (wanted === '') return undefined;
  const names = Uint8Array.from(data.names, (name) => Number(name.toLowerCase().includes(wanted)));
  const places: Place[] = [];
  for (const { rows } of ranks) {
    for (const row of rows) {
      for (let at = 0; at < row.name.length; at++) {
        if (names[row.name[at] as number] === 1) places.push({ row, at });
      }
    }
  }
  places.sort((a, b) => fromOf(a) - fromOf(b) || a.row.rank.index - b.row.rank.index);
  return { text: wanted, names, places };
}

/** The index of the first place at or after `us`; the first of all if there is none. */
export function firstFrom({ places }: Found, us: number): number {
  const index = places.findIndex((place) => fromOf(place) >= us);
  return Math.max(index, 0);
}
