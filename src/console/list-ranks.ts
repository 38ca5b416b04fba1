// Ranks as texts name them.

/** 'rank 3', 'ranks 0, 2'. */
export function listRanks(ranks: readonly number[]): string {
  return `${ranks.length === 1 ? 'rank' : 'ranks'} ${ranks.join(', ')}`;
}
