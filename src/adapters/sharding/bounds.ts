// How a vector is cut into shards, one for each member: where the shard of a member begins, and where it ends. Pure, and the same on
// every rank.

export type Bounds = (total: number, index: number, members: number) => { begin: number; end: number };

/** As reducescatter() cuts: equal lengths, the first members one element longer. */
export const boundsOf: Bounds = (total, index, members) => {
  const [minimum, longer] = [Math.floor(total / members), total % members];
  const begin = index * minimum + Math.min(index, longer);
  return { begin, end: begin + minimum + (index < longer ? 1 : 0) };
};

/** Elements of every shard where all are equally long, and zeros follow the vector. */
export function paddedLength(total: number, members: number): number {
  return Math.max(Math.ceil(total / members), 1);
}

/** What each of these has of the vector: the last shards may have nothing. */
export const paddedBounds: Bounds = (total, index, members) => {
  const length = paddedLength(total, members);
  const begin = Math.min(index * length, total);
  return { begin, end: Math.min(begin + length, total) };
};
