// Whose state a new generation takes, and who lacks it: pure, and the same on all ranks, because it follows from what each has
// said to all.

import type { Version } from './versions.ts';

/** What a rank says. */
export interface Offer {
  /** Number of its last commit; -1: it has none. */
  readonly commit: number;
  /** What it can go back to, the last first; undefined where every rank has all of the state. */
  readonly versions?: readonly Version[] | undefined;
}

export interface Election {
  /** The lowest of the ranks with the highest commit. */
  readonly root: number;
  /** Number of that commit; -1: nobody has one, and the root's state as it is becomes the first. */
  readonly commit: number;
  /** Ranks that do not have the root's commit, in ascending order. */
  readonly lacking: readonly number[];
  /** Where its shards are; undefined where every rank has all of the state, and where nobody has any. */
  readonly shards?: ElectedShards | undefined;
}

export interface ElectedShards {
  readonly version: Pick<Version, 'commit' | 'generation' | 'members'>;
  /** By shard: the ranks that have it, that of the rank it belonged to first. */
  readonly holders: readonly (readonly number[])[];
}

/** Shards that nobody has any more. */
export interface LostShards {
  /** Of the version of which most is left, as ranks of its generation; empty: there is none that all have. */
  readonly lost: readonly number[];
  readonly version?: Pick<Version, 'commit' | 'generation' | 'members'> | undefined;
}

/** `commits`: number of each rank's last commit, -1 for one that has none. */
export function elect(commits: readonly number[]): Election {
  const commit = Math.max(...commits);
  const root = commits.indexOf(commit);
  const isLacking = (own: number, rank: number) => rank !== root && (commit < 0 || own !== commit);
  return { root, commit, lacking: commits.flatMap((own, rank) => (isLacking(own, rank) ? [rank] : [])) };
}

/**
 * The same where ranks have shards: the last version that every survivor has, and of which no shard is lost. Commits after it
 * are given up, because the lost ranks had the only copy of a part of them.
 */
export function electShards(offers: readonly Offer[]): Election | LostShards {
  const survivors = offers.flatMap(({ commit }, rank) => (commit < 0 ? [] : [rank]));
  const [root] = survivors;
  if (root === undefined) return elect(offers.map(({ commit }) => commit));
  const ofRank = (rank: number, { commit, generation }: Pick<Version, 'commit' | 'generation'>) =>
    offers[rank]?.versions?.find((version) => version.commit === commit && version.generation === generation);
  let lost: LostShards | undefined;
  for (const version of offers[root]?.versions ?? []) {
    const held = survivors.map((rank) => ofRank(rank, version)?.shards);
    if (held.includes(undefined)) continue;
    const { commit, generation, members } = version;
    const holders = Array.from({ length: members }, (_, shard) => holdersOf(shard, survivors, held as never));
    const missing = holders.flatMap((ranks, shard) => (ranks.length === 0 ? [shard] : []));
    if (missing.length > 0) {
      // Of commits without copies, more is lost: they are not the ones to name.
      if (lost === undefined || missing.length < lost.lost.length)
        lost = { lost: missing, version: { commit, generation, members } };
      continue;
    }
    const lacking = offers.flatMap((_, rank) => (survivors.includes(rank) ? [] : [rank]));
    return { root, commit, lacking, shards: { version: { commit, generation, members }, holders } };
  }
  return lost ?? { lost: [] };
}

function holdersOf(shard: number, ranks: readonly number[], held: readonly (readonly number[])[]): number[] {
  const having = ranks.filter((_, i) => held[i]?.includes(shard));
  const owner = ranks.find((_, i) => held[i]?.[0] === shard);
  return owner === undefined ? having : [owner, ...having.filter((rank) => rank !== owner)];
}
