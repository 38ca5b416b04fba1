// Windows of an epoch, and what each rank takes of them. *Position* (of a data set): how many positions are done, by all ranks
// together. A step takes the next *window* of positions: G of them, or what is left. After any number of steps a prefix of the
// positions is done, whatever the numbers of ranks were. Pure.

import { itemsBefore, type Lanes, positionOf } from './lanes.ts';

/** What happens where the samples of a window cannot be divided evenly among the ranks. */
export type UnevenWindow = 'pad' | 'drop' | 'keep' | 'exact';

export interface Dealing {
  /** Positions of the epoch. */
  readonly length: number;
  /** G: samples of a step, all ranks together. */
  readonly globalBatchSize: number;
  /** Number of ranks. */
  readonly size: number;
  readonly uneven: UnevenWindow;
}

export interface Window {
  /** Its first position. */
  readonly start: number;
  /** How many positions are used. */
  readonly length: number;
  /** The position after this step: more than start + length if samples are dropped. */
  readonly end: number;
}

export interface Share {
  readonly places: readonly number[];
  /** Factor for this rank's mean loss that makes the average over the ranks the mean over the window. */
  readonly weight: number;
}

/** The window of the next step; undefined if the epoch has ended. */
export function windowAt(
  position: number,
  { length, globalBatchSize, size, uneven }: Dealing,
): Window | undefined {
  const rest = length - position;
  if (rest >= globalBatchSize) {
    return { start: position, length: globalBatchSize, end: position + globalBatchSize };
  }
  // Only the last window is cut to a multiple of the ranks: what is dropped from the others would be many samples.
  const used = uneven === 'drop' ? rest - (rest % size) : rest;
  return used > 0 ? { start: position, length: used, end: length } : undefined;
}

/** Steps from this position to the end of the epoch, if the number of ranks stays as it is. */
export function stepsFrom(position: number, dealing: Dealing): number {
  const rest = dealing.length - position;
  const full = Math.floor(rest / dealing.globalBatchSize);
  const hasTail = windowAt(position + full * dealing.globalBatchSize, dealing) !== undefined;
  return full + (hasTail ? 1 : 0);
}

/**
 * What one rank takes of a window: the r-th n-th of it in the order of lanes. So it keeps to the same ⌈C / n⌉ + 1 lanes at most
 * where C divides the window.
 */
export function sliceOf(
  window: Window,
  { length, size, uneven }: Dealing,
  lanes: Lanes,
  rank: number,
): Share {
  const isPadded = uneven === 'pad';
  const dealt = isPadded ? Math.ceil(window.length / size) * size : window.length;
  const [from, to] = [Math.floor((rank * dealt) / size), Math.floor(((rank + 1) * dealt) / size)];
  const places = inLaneOrder(window, lanes, from, Math.min(to, window.length));
  // Padded with the samples that follow, which are the first ones where the order ends.
  for (let place = Math.max(from, window.length); place < to; place += 1) {
    places.push((window.start + place) % length);
  }
  const weight = (places.length * size) / dealt;
  // This rank takes part in the step all the same; most models cannot compute a mean over nothing.
  if (places.length === 0 && uneven !== 'keep') places.push(window.start);
  return { places, weight };
}

/** Positions number `from` to `to` (without it) of a window whose positions are sorted by lane, then by item. */
function inLaneOrder({ start, length }: Window, lanes: Lanes, from: number, to: number): number[] {
  const found: number[] = [];
  let before = 0;
  for (let lane = 0; lane < lanes.count && before < to; lane += 1) {
    const first = itemsBefore(start, lane, lanes);
    const count = itemsBefore(start + length, lane, lanes) - first;
    const [low, high] = [Math.max(from - before, 0), Math.min(to - before, count)];
    for (let item = low; item < high; item += 1) found.push(positionOf(lane, first + item, lanes));
    before += count;
  }
  return found;
}
