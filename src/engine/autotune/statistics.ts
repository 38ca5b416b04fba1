// Figures out of times that have outliers: a step that waited for a validation run says nothing about settings.

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  if (sorted.length % 2 === 1) return sorted[middle] as number;
  return ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}

/**
 * The mean without the lowest and highest fifth. Not the median: two optimizers that take turns make short and long
 * steps, and the median would show only one kind.
 */
export function trimmedMean(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const cut = Math.floor(sorted.length / 5);
  const kept = sorted.slice(cut, sorted.length - cut);
  return kept.reduce((sum, value) => sum + value, 0) / kept.length;
}

/** The standard deviation as outliers do not move it: 1.4826 times the median distance from the median. */
export function spread(values: readonly number[]): number {
  const middle = median(values);
  return 1.4826 * median(values.map((value) => Math.abs(value - middle)));
}

export interface Comparison {
  readonly beforeMs: number;
  readonly afterMs: number;
  /** Share of the time before that is saved; negative where it is slower. */
  readonly gain: number;
  /** A gain up to this may be chance. */
  readonly noise: number;
  readonly isBetter: boolean;
}

/** Smaller gains are not worth a setting that nobody has asked for. */
export const leastGain: number = 0.01;

/** Times of two settings, measured in turns: the pairs share whatever slowed the machine at that time. */
export function compare(before: readonly number[], after: readonly number[]): Comparison {
  const gains = before.map((value, i) => 1 - (after[i] as number) / value);
  const gain = median(gains);
  // Twice the standard error of a median.
  const noise = Math.max((2 * 1.2533 * spread(gains)) / Math.sqrt(gains.length), leastGain);
  return { beforeMs: median(before), afterMs: median(after), gain, noise, isBetter: gain > noise };
}
