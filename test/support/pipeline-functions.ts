// Functions of pipelines, for threads and compute workers.

import type { ElementContext } from '../../src/data/index.ts';
import { type Tensor, tensor } from '../../src/tensor/tensor.ts';

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

/** A row of 8192 bytes, which says whose it is, and a number. */
export function wideRow(value: number): { row: Tensor; id: Tensor } {
  return { row: tensor(new Uint8Array(8192).fill(value % 251)), id: tensor(Int32Array.of(value), []) };
}

let calls = 0;

/** Its results depend on how often it was called. */
export function remembers(value: number): { x: number; id: number } {
  calls += 1;
  return { x: calls, id: value };
}
