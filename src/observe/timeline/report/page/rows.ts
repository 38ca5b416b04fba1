// The rows of the picture: each track of a rank has one row for slices, one below it for what is inside of them, and so on. The slices
// of a row are in order and do not overlap, so that what is visible is found by halving.

import { type Details, type TimelineData, type TrackData, unitsPerUs } from '../timeline-data.ts';

/** As in records.ts, which a page does not need as a whole. */
export const trackIds = { steps: 1, training: 2, data: 6, operations: 10 } as const;

export type RowKind = 'step' | 'phase' | 'operation' | 'part' | 'other';

export interface Row {
  readonly rank: RankRows;
  readonly kind: RowKind;
  readonly track: string;
  readonly depth: number;
  readonly from: Float64Array;
  readonly to: Float64Array;
  readonly name: Uint32Array;
  readonly details: Uint32Array;
  /** The slice around each one, in the row above. */
  readonly around: Int32Array;
  readonly above: Row | undefined;
}

export interface RankRows {
  readonly index: number;
  readonly rank: number;
  readonly title: string;
  readonly place: string;
  readonly rows: readonly Row[];
}

/** A slice of a row, by its index. */
export interface Place {
  readonly row: Row;
  readonly at: number;
}

const maxDepth = 4;

export function rowsOf({ ranks }: TimelineData): RankRows[] {
  return ranks.map(({ rank, title, place, tracks }, index) => {
    const rows: Row[] = [];
    const own: RankRows = { index, rank, title, place, rows };
    for (const track of tracks) rows.push(...rowsOfTrack(own, track));
    return own;
  });
}

function rowsOfTrack(rank: RankRows, track: TrackData): Row[] {
  const levels: { from: number[]; to: number[]; name: number[]; details: number[]; around: number[] }[] = [];
  const { slices } = track;
  let start = 0;
  for (let i = 0; i < slices.length; i += 4) {
    start += slices[i] as number;
    const end = start + (slices[i + 1] as number);
    let depth = 0;
    // Inside of all slices that are not over yet.
    while (depth < levels.length && start < ((levels[depth]?.to.at(-1) as number) ?? 0)) depth++;
    if (depth >= maxDepth) continue;
    // What is left of deeper levels was inside of a slice that is over.
    const level = levels[depth] ?? { from: [], to: [], name: [], details: [], around: [] };
    levels[depth] = level;
    level.from.push(start);
    level.to.push(end);
    level.name.push(slices[i + 2] as number);
    level.details.push(slices[i + 3] as number);
    level.around.push(depth === 0 ? -1 : (levels[depth - 1]?.from.length as number) - 1);
  }
  const rows: Row[] = [];
  for (const [depth, level] of levels.entries()) {
    rows.push({
      rank,
      kind: kindOf(track.id, depth),
      track: track.id === trackIds.training ? 'training' : track.title,
      depth,
      from: Float64Array.from(level.from, (unit) => unit / unitsPerUs),
      to: Float64Array.from(level.to, (unit) => unit / unitsPerUs),
      name: Uint32Array.from(level.name),
      details: Uint32Array.from(level.details),
      around: Int32Array.from(level.around),
      above: rows[depth - 1],
    });
  }
  return rows;
}

function kindOf(track: number, depth: number): RowKind {
  if (track >= trackIds.operations) return depth === 0 ? 'operation' : 'part';
  if (track === trackIds.steps) return 'step';
  return track === trackIds.training ? 'phase' : 'other';
}

/** The first slice of a row that ends after `us`: its index, or the number of slices. */
export function firstEndingAfter({ to }: Row, us: number): number {
  let [low, high] = [0, to.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((to[middle] as number) > us) high = middle;
    else low = middle + 1;
  }
  return low;
}

export function fromOf({ row, at }: Place): number {
  return row.from[at] as number;
}

export function durationOf({ row, at }: Place): number {
  return (row.to[at] as number) - (row.from[at] as number);
}

export function detailsOf(data: TimelineData, { row, at }: Place): Details {
  return data.details[(row.details[at] as number) - 1] ?? {};
}

export function nameOf(data: TimelineData, { row, at }: Place): string {
  return data.names[row.name[at] as number] ?? '';
}

/** The slice of the first row of its track that this one is, or is inside of. */
export function outermost(place: Place): Place {
  let { row, at } = place;
  while (row.above !== undefined) {
    at = row.around[at] as number;
    row = row.above;
  }
  return { row, at };
}

/** What is directly inside of a slice, in order. */
export function insideOf(ranks: readonly RankRows[], { row, at }: Place): Place[] {
  const below = ranks[row.rank.index]?.rows.find(({ above }) => above === row);
  if (below === undefined) return [];
  const places: Place[] = [];
  for (let i = firstEndingAfter(below, row.from[at] as number); i < below.from.length; i++) {
    if ((below.from[i] as number) >= (row.to[at] as number)) break;
    if (below.around[i] === at) places.push({ row: below, at: i });
  }
  return places;
}

/**
 * The same collective or step as seen by every rank that has it. Ranks leave a collective only after all have come to it, so that
 * their slices of it share a moment: numbers of calls would not do, because a file may lack some of them.
 */
export function onAllRanks(ranks: readonly RankRows[], { row, at }: Place): Place[] {
  const [from, to, name] = [row.from[at] as number, row.to[at] as number, row.name[at] as number];
  return ranks.flatMap((rank) => {
    if (rank === row.rank) return [{ row, at }];
    let best: Place | undefined;
    let longest = 0;
    for (const other of rank.rows) {
      if (other.kind !== row.kind || other.depth !== row.depth) continue;
      for (let i = firstEndingAfter(other, from); i < other.from.length; i++) {
        if ((other.from[i] as number) >= to) break;
        if (other.name[i] !== name) continue;
        const shared = Math.min(to, other.to[i] as number) - Math.max(from, other.from[i] as number);
        if (shared > longest) [longest, best] = [shared, { row: other, at: i }];
      }
    }
    return best === undefined ? [] : [best];
  });
}
