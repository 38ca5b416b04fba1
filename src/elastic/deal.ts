// How the samples of an epoch are dealt among ranks whose number changes. Pure. Windows and positions are those of
// data/order/slices.ts.
//
// Words. The *order* of an epoch is a list of samples, the same on all ranks; *places* are indices into it. Rank r of n takes
// places r, r + n, r + 2n … of the window of a step, its *share*.

import type { Dealing, Share, UnevenWindow, Window } from '../data/order/slices.ts';

export { type Dealing, type Share, stepsFrom, type Window, windowAt } from '../data/order/slices.ts';

/** What happens where the samples of a window cannot be divided evenly. */
export type ElasticUneven = UnevenWindow;

/** What one rank takes of a window. */
export function shareOf(window: Window, { length, size, uneven }: Dealing, rank: number): Share {
  const isPadded = uneven === 'pad';
  const dealt = isPadded ? Math.ceil(window.length / size) * size : window.length;
  const places: number[] = [];
  // Padded with the samples that follow, which are the first ones where the order ends.
  for (let place = rank; place < dealt; place += size) places.push((window.start + place) % length);
  const weight = (places.length * size) / dealt;
  // This rank takes part in the step all the same; most models cannot compute a mean over nothing.
  if (places.length === 0 && uneven !== 'keep') places.push(window.start);
  return { places, weight };
}
