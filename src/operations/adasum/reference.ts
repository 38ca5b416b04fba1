// What Adasum is, as plainly as it can be said: the tree of pairs, in float64, one tensor. Tests compare with it.

/** `vectors` are those of the members in order; their number is a power of two. */
export function adasumReference(vectors: readonly (readonly number[])[]): readonly number[] {
  if (vectors.length === 1) return vectors[0] as readonly number[];
  const half = vectors.length / 2;
  const a = adasumReference(vectors.slice(0, half));
  const b = adasumReference(vectors.slice(half));
  const dot = product(a, b);
  const share = (square: number) => (square < Math.sqrt(2 ** -1022) ? 1 : 1 - dot / (2 * square));
  const ofA = share(product(a, a));
  const ofB = share(product(b, b));
  return a.map((x, i) => ofA * x + ofB * (b[i] as number));
}

function product(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, x, i) => sum + x * (b[i] as number), 0);
}
