// A seeded order of samples: the same on every rank, another one in every epoch.

import { checkNames, invalid } from '../operations/check-options.ts';
import { shuffleInPlace } from './order/permutation.ts';
import { mix } from './order/random.ts';

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
  const order = Int32Array.from({ length }, (_, place) => place);
  shuffleInPlace(order, mix(mix(seed | 0) ^ Math.imul(epoch + 1, 0x85ebca6b)));
  return order;
}
