// Which gradients are reduced together. A *bucket* is a list of variables (by their place in the list of all) whose gradients
// are reduced in one operation, as soon as the last of them is there. Pure, and the same on every rank because the ranks have
// agreed on the data.

export interface BucketRequest {
  /** Bytes of each variable's gradient. */
  readonly bytes: readonly number[];
  /** Places of the gradients that are reduced, in the order in which backpropagation finishes them. */
  readonly order: readonly number[];
  /** A number of groups, lists of places, or undefined: by size. */
  readonly groups: number | readonly (readonly number[])[] | undefined;
  readonly bucketBytes: number;
}

export function planBuckets({ bytes, order, groups, bucketBytes }: BucketRequest): number[][] {
  if (typeof groups === 'number')
    return splitEvenly(
      [...order].sort((a, b) => a - b),
      groups,
    );
  if (groups === undefined) return splitBySize(order, bytes, bucketBytes);
  const wanted = new Set(order);
  const grouped = groups.map((group) => group.filter((place) => wanted.has(place)));
  const inGroups = new Set(grouped.flat());
  const alone = order.filter((place) => !inGroups.has(place)).map((place) => [place]);
  // Buckets are in the order in which they are complete: a group is complete with its last member.
  const finishedAt = new Map(order.map((place, at) => [place, at]));
  const last = (bucket: readonly number[]) => Math.max(...bucket.map((place) => finishedAt.get(place) ?? 0));
  return [...grouped.filter((group) => group.length > 0), ...alone].sort((a, b) => last(a) - last(b));
}

function splitBySize(order: readonly number[], bytes: readonly number[], bucketBytes: number): number[][] {
  const buckets: number[][] = [];
  let open: number[] = [];
  let filled = 0;
  for (const place of order) {
    const size = bytes[place] ?? 0;
    if (open.length > 0 && filled + size > bucketBytes) {
      buckets.push(open);
      open = [];
      filled = 0;
    }
    open.push(place);
    filled += size;
  }
  if (open.length > 0) buckets.push(open);
  return buckets;
}

/** `count` contiguous parts of nearly equal length, the first ones longer; fewer if there are fewer items. */
function splitEvenly(items: readonly number[], count: number): number[][] {
  const parts: number[][] = [];
  let from = 0;
  for (let i = 0; i < count && from < items.length; i++) {
    const length = Math.floor(items.length / count) + (i < items.length % count ? 1 : 0);
    if (length === 0) continue;
    parts.push(items.slice(from, from + length));
    from += length;
  }
  return parts;
}
