// Positions and lanes. The samples of an epoch stand in a sequence of N *places*; it is cut into C *lanes* of equal length, but
// that the first N mod C are longer by one. *Position* p of the epoch is item ⌊p / C⌋ of lane p mod C, so that a run of positions
// mixes all lanes, and each lane is read from its beginning to its end. C stays the same however many ranks there are. Pure.

export interface Lanes {
  /** C. */
  readonly count: number;
  /** N. */
  readonly length: number;
}

/** The largest number of lanes that is chosen where the user does not say. */
export const maxChosenLanes = 64;
const minChosenLanes = 16;

/** C for a window of this many positions: its largest divisor up to 64, because then ranks share no lanes. */
export function chooseLanes(window: number): number {
  for (let count = Math.min(maxChosenLanes, window); count >= minChosenLanes; count -= 1) {
    if (window % count === 0) return count;
  }
  return maxChosenLanes;
}

export function laneOf(position: number, { count }: Lanes): number {
  return position % count;
}

export function itemOf(position: number, { count }: Lanes): number {
  return Math.floor(position / count);
}

export function positionOf(lane: number, item: number, { count }: Lanes): number {
  return item * count + lane;
}

/** Items of a lane. */
export function laneLength(lane: number, { count, length }: Lanes): number {
  return Math.floor(length / count) + (lane < length % count ? 1 : 0);
}

/** The place of a lane's first item in the sequence. */
export function laneStart(lane: number, { count, length }: Lanes): number {
  return lane * Math.floor(length / count) + Math.min(lane, length % count);
}

/** How many positions below `position` are in this lane. */
export function itemsBefore(position: number, lane: number, { count }: Lanes): number {
  return Math.floor((position + count - 1 - lane) / count);
}
