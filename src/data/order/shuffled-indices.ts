// A seeded order of samples: the same on every rank, another one in every epoch.

import { checkNames, invalid } from '../../operations/check-options.ts';

export interface ShuffleOptions {
  /** Whole number (0). The same on all ranks. */
  seed?: number | undefined;
  /** Whole number (0). The same on all ranks. */
  epoch?: number | undefined;
}

/** The numbers 0 … length − 1 in an order that depends on seed and epoch only. */
export function shuffledIndices(length: number, options: ShuffleOptions = {}): Int32Array {
  const what = 'shuffledIndices()';
  checkNames(options, ['seed', 'epoch'], what);
  const { seed = 0, epoch = 0 } = options;
  for (const [name, value] of Object.entries({ length, seed, epoch })) {
    if (Number.isInteger(value) && (value >= 0 || name === 'seed')) continue;
    throw invalid(what, `${name} is a whole number, not ${value}`);
  }
  const next = randomIntegers(seed, epoch);
  const order = Int32Array.from({ length }, (_, place) => place);
  // Fisher–Yates, from the end.
  for (let last = length - 1; last > 0; last -= 1) {
    const chosen = Math.floor((next() / 2 ** 32) * (last + 1));
    const value = order[chosen] as number;
    order[chosen] = order[last] as number;
    order[last] = value;
  }
  return order;
}

/** Whole numbers below 2^32: a counter with the golden-ratio step, through a mixing function ("splitmix"). */
function randomIntegers(seed: number, epoch: number): () => number {
  let counter = mix(mix(seed | 0) ^ Math.imul(epoch + 1, 0x85ebca6b));
  return () => {
    counter = (counter + 0x9e3779b9) | 0;
    return mix(counter) >>> 0;
  };
}

function mix(value: number): number {
  let mixed = value ^ (value >>> 16);
  mixed = Math.imul(mixed, 0x21f0aaad);
  mixed ^= mixed >>> 15;
  mixed = Math.imul(mixed, 0x735a2d97);
  return mixed ^ (mixed >>> 15);
}
