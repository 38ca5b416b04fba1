// How the samples of an epoch are dealt among ranks whose number changes. Pure.
//
// Words. The *order* of an epoch is a list of samples, the same on all ranks; *places* are indices into it. *Position*: how many
// places are done, by all ranks together. A step takes the next *window* of places: G of them, or what is left. Rank r of n takes
// places r, r + n, r + 2n … of the window, its *share*. After any number of steps a prefix of the order is done, whatever the
// numbers of ranks were.

/** What happens where the samples of a window cannot be divided evenly. */
export type ElasticUneven = 'pad' | 'drop' | 'keep' | 'exact';

export interface Dealing {
  /** Of the order. */
  readonly length: number;
  /** G: samples of a step, all ranks together. */
  readonly globalBatchSize: number;
  /** Number of ranks. */
  readonly size: number;
  readonly uneven: ElasticUneven;
}

export interface Window {
  /** Its first place. */
  readonly start: number;
  /** How many places are used. */
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
