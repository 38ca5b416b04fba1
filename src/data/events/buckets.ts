// The buckets of a histogram: equally wide, from the smallest value to the largest. The last one contains its right end.

export interface Bucket {
  readonly left: number;
  readonly right: number;
  readonly count: number;
}

/** Values that are not finite are left out, as TensorBoard cannot show them. No finite value: no bucket. */
export function bucketsOf(values: ArrayLike<number>, buckets: number): Bucket[] {
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  let finite = 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    if (!Number.isFinite(value)) continue;
    finite++;
    if (value < min) min = value;
    if (value > max) max = value;
  }
  if (finite === 0) return [];
  // All values are equal: one bucket around them, so that it has a width.
  if (min === max) return [{ left: min - 0.5, right: max + 0.5, count: finite }];
  const counts = new Float64Array(buckets);
  // The range of doubles is wider than the largest double.
  const scale = Number.isFinite(max - min) ? 1 : 0.5;
  const range = max * scale - min * scale;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    if (!Number.isFinite(value)) continue;
    const at = Math.min(Math.floor(((value * scale - min * scale) / range) * buckets), buckets - 1);
    counts[at] = (counts[at] as number) + 1;
  }
  const edge = (index: number) =>
    index === buckets ? max : min * (1 - index / buckets) + max * (index / buckets);
  return Array.from(counts, (count, index) => ({ left: edge(index), right: edge(index + 1), count }));
}
