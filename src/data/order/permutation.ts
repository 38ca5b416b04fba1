// Permutations of 0 … n − 1 that depend on a key alone. Short ones are tables (Fisher–Yates). Long ones are computed: a Feistel
// network permutes the numbers of 2b bits, and *cycle walking* applies it again until the result is below n, at most four times
// on average. They need no memory, whatever n is.

import { mix, randomIntegers } from './random.ts';

export interface Permutation {
  readonly length: number;
  /** Where `place` goes; every number below `length` exactly once. */
  at(place: number): number;
}

/** Up to here a table is cheaper than computing. */
export const maxTableLength = 65_536;
const rounds = 6;

export function permutation(length: number, key: number): Permutation {
  return length <= maxTableLength ? table(length, key) : network(length, key);
}

/** Shuffled in place, by Fisher–Yates from the end. */
export function shuffleInPlace(list: Int32Array | Uint32Array, key: number): void {
  const next = randomIntegers(key);
  for (let last = list.length - 1; last > 0; last -= 1) {
    const chosen = Math.floor((next() / 2 ** 32) * (last + 1));
    const value = list[chosen] as number;
    list[chosen] = list[last] as number;
    list[last] = value;
  }
}

function table(length: number, key: number): Permutation {
  const places = Int32Array.from({ length }, (_, place) => place);
  shuffleInPlace(places, key);
  return { length, at: (place) => places[place] as number };
}

function network(length: number, key: number): Permutation {
  const halfBits = Math.ceil(Math.ceil(Math.log2(length)) / 2);
  const half = 2 ** halfBits;
  const next = randomIntegers(key);
  const keys = Array.from({ length: rounds }, next);
  const once = (value: number): number => {
    let [left, right] = [Math.floor(value / half), value % half];
    for (const roundKey of keys) {
      // halfBits ≤ 27: numbers of samples are below 2^53.
      const mixed = ((left ^ (mix(right ^ roundKey) >>> (32 - halfBits))) >>> 0) % half;
      left = right;
      right = mixed;
    }
    return left * half + right;
  };
  return {
    length,
    at: (place) => {
      let value = once(place);
      while (value >= length) value = once(value);
      return value;
    },
  };
}
