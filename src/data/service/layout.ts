// How the samples of an epoch become groups of batches, so that a batch has a name, (epoch, group, ordinal), that says what is in it,
// whoever makes it. With a shuffle pool a group has a few lanes of its own: the worker that makes its batches reads these lanes and
// no others. Otherwise batch j of the epoch belongs to group j mod G. What the ends of groups leave makes up the batches of the
// *tail group*, behind the others. Pure.

import { type Lanes, laneLength, positionOf } from '../order/lanes.ts';

export interface Layout {
  /** C: lanes of one copy of the data. */
  readonly lanes: number;
  /** G: groups of one copy, without the tail group. */
  readonly groups: number;
  /** Groups have lanes of their own. */
  readonly isByLane: boolean;
  /** How often the data is gone through in an epoch, each time in another order: parallel_epochs. */
  readonly copies: number;
}

/** What the layout is applied to. */
export interface Counted {
  /** Samples of an epoch. */
  readonly length: number;
  readonly batchSize: number;
  readonly dropRemainder: boolean;
}

/** Lanes in a group. */
export const lanesPerGroup = 4;

/** Groups of the ledger: those of every copy, each with its tail group. */
export function groupCount({ groups, copies }: Layout): number {
  return (groups + 1) * copies;
}

export interface GroupPlace {
  readonly copy: number;
  /** `layout.groups`: the tail group. */
  readonly group: number;
}

export function placeOfGroup(group: number, { groups }: Layout): GroupPlace {
  return { copy: Math.floor(group / (groups + 1)), group: group % (groups + 1) };
}

/** Batches of each group in an epoch. */
export function groupLengths(layout: Layout, counted: Counted): number[] {
  const { groups, copies, isByLane } = layout;
  const { length, batchSize, dropRemainder } = counted;
  const lengths: number[] = [];
  if (isByLane) {
    let left = 0;
    for (let group = 0; group < groups; group++) {
      const samples = groupSamples(group, layout, length);
      lengths.push(Math.floor(samples / batchSize));
      left += samples % batchSize;
    }
    lengths.push(dropRemainder ? Math.floor(left / batchSize) : Math.ceil(left / batchSize));
  } else {
    const batches = dropRemainder ? Math.floor(length / batchSize) : Math.ceil(length / batchSize);
    for (let group = 0; group < groups; group++)
      lengths.push(Math.floor((batches + groups - 1 - group) / groups));
    lengths.push(0);
  }
  return Array.from({ length: copies }, () => lengths).flat();
}

/** The positions of a batch. */
export function positionsOf(group: number, ordinal: number, layout: Layout, counted: Counted): number[] {
  const { groups, isByLane } = layout;
  const { length, batchSize } = counted;
  const { group: place } = placeOfGroup(group, layout);
  const first = ordinal * batchSize;
  if (!isByLane) {
    const start = (ordinal * groups + place) * batchSize;
    return range(start, Math.min(length, start + batchSize));
  }
  if (place < groups)
    return range(first, first + batchSize).map((at) => positionIn(place, at, layout, length));
  const positions: number[] = [];
  let skip = first;
  for (let each = 0; each < groups && positions.length < batchSize; each++) {
    const samples = groupSamples(each, layout, length);
    const left = samples % batchSize;
    const from = Math.min(skip, left);
    skip -= from;
    const count = Math.min(left - from, batchSize - positions.length);
    const start = samples - left + from;
    for (let at = start; at < start + count; at++) positions.push(positionIn(each, at, layout, length));
  }
  return positions;
}

/** Lanes [from, to) of a group. */
export function lanesOfGroup(group: number, { lanes, groups }: Layout): readonly [from: number, to: number] {
  return [Math.floor((group * lanes) / groups), Math.floor(((group + 1) * lanes) / groups)];
}

function groupSamples(group: number, layout: Layout, length: number): number {
  const lanes: Lanes = { count: layout.lanes, length };
  const [from, to] = lanesOfGroup(group, layout);
  let samples = 0;
  for (let lane = from; lane < to; lane++) samples += laneLength(lane, lanes);
  return samples;
}

/** Samples of a group are in the order of their positions: item after item of its lanes. */
function positionIn(group: number, at: number, layout: Layout, length: number): number {
  const [from, to] = lanesOfGroup(group, layout);
  // Only the last item of a lane can be missing, and then it is missing in the lanes that follow, too.
  return positionOf(from + (at % (to - from)), Math.floor(at / (to - from)), { count: layout.lanes, length });
}

function range(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from) }, (_, at) => from + at);
}
