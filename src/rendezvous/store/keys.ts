// The keys of the store that more than one part of the system knows.

/**
 * Where the control block of a host is: `leaderRank` is the lowest rank there, which makes it. `generation` counts
 * init() calls of a rank from 1: all ranks call it alike.
 */
export function controlBlockKey(generation: number, leaderRank = 0): string {
  return `control-block/${generation}/${leaderRank}`;
}
