// Random numbers that depend on a key alone: the same on every rank, in every thread and after every restart. A *key* is a
// whole number below 2^32, made from a seed, an epoch and whatever else tells one use from another.

/** Mixes whole numbers of any size into a key; their order counts. */
export function keyOf(...parts: readonly number[]): number {
  let key = 0x243f6a88;
  for (const part of parts) {
    key = mix(key ^ mix(part | 0));
    // What lies above 32 bits.
    key = mix(key + Math.imul(Math.floor(part / 2 ** 32) | 0, 0x9e3779b9) + 0x7f4a7c15);
  }
  return key >>> 0;
}

/** Whole numbers below 2^32: a counter with the golden-ratio step, through a mixing function ("splitmix"). */
export function randomIntegers(key: number): () => number {
  let counter = key | 0;
  return () => {
    counter = (counter + 0x9e3779b9) | 0;
    return mix(counter) >>> 0;
  };
}

/** Numbers from 0 up to, but without, 1, with 53 random bits each, like Math.random(). */
export function randomFractions(key: number): () => number {
  const next = randomIntegers(key);
  return () => ((next() >>> 5) * 2 ** 26 + (next() >>> 6)) / 2 ** 53;
}

/** A one-to-one function of 32 bits of which every input bit changes about half of the output bits. */
export function mix(value: number): number {
  let mixed = value ^ (value >>> 16);
  mixed = Math.imul(mixed, 0x21f0aaad);
  mixed ^= mixed >>> 15;
  mixed = Math.imul(mixed, 0x735a2d97);
  return mixed ^ (mixed >>> 15);
}
