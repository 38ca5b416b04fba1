// The collectives that have a short way.

/** Each remembers its own calls. */
export const ways = {
  allreduce: 0,
  groupedAllreduce: 1,
  broadcast: 2,
  allgather: 3,
  reducescatter: 4,
  alltoall: 5,
  barrier: 6,
  broadcastObject: 7,
  allgatherObject: 8,
} as const;
export type Way = (typeof ways)[keyof typeof ways];

/** Whether its results may go into its inputs. */
export function canBeInPlace(way: Way): boolean {
  return way === ways.allreduce || way === ways.broadcast || way === ways.groupedAllreduce;
}
