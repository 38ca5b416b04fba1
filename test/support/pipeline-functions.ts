// Functions of pipelines, for threads and compute workers.

import type { ElementContext } from '../../src/data/index.ts';

export function noisy(value: number, { random }: ElementContext): number {
  return value + random();
}

export function isEven(value: number): boolean {
  return value % 2 === 0;
}

export function failAt30(value: number): number {
  if (value === 30) throw new Error('thirty');
  return value;
}

/** Keeps a thread busy for a millisecond. */
export function slow(value: number): number {
  for (const until = performance.now() + 1; performance.now() < until; );
  return value;
}
