// Finds what somebody meant who has mistyped a name.

/** The candidate that differs in the fewest letters, if it is close enough to be a typo. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  const started = candidates.filter((candidate) => word.length > 3 && candidate.startsWith(word));
  if (started.length === 1) return started[0];
  const scored = candidates.map((candidate) => ({ candidate, distance: distance(word, candidate) }));
  scored.sort((a, b) => a.distance - b.distance);
  const best = scored[0];
  return best !== undefined && best.distance <= Math.max(1, word.length / 4) ? best.candidate : undefined;
}

/** The Levenshtein distance. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    row = next;
  }
  return row[b.length] as number;
}
