// Whose state a new generation takes, and who lacks it: pure, and the same on all ranks, because it follows from what each has
// said to all.

export interface Election {
  /** The lowest of the ranks with the highest commit. */
  readonly root: number;
  /** Number of that commit; -1: nobody has one, and the root's state as it is becomes the first. */
  readonly commit: number;
  /** Ranks that do not have the root's commit, in ascending order. */
  readonly lacking: readonly number[];
}

/** `commits`: number of each rank's last commit, -1 for one that has none. */
export function elect(commits: readonly number[]): Election {
  const commit = Math.max(...commits);
  const root = commits.indexOf(commit);
  const isLacking = (own: number, rank: number) => rank !== root && (commit < 0 || own !== commit);
  return { root, commit, lacking: commits.flatMap((own, rank) => (isLacking(own, rank) ? [rank] : [])) };
}
