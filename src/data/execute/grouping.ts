// Batches of uncounted pipelines: elements come one by one, and a batch is made when there are enough. With buckets, elements of
// similar length share a batch. Pure but for the memory of batches.

import { HorovodError } from '../../errors.ts';
import type { Plan } from '../plan/normalise.ts';
import { allocatePlain, isTensor, stackElements } from './stack.ts';

/** An element, and the number of rows that are done when it is taken. */
export interface Grouped {
  readonly value: unknown;
  /** Whatever the caller needs to know of the last element. */
  readonly last: unknown;
}

export class Grouping {
  readonly #batch: NonNullable<Plan['batch']>;
  readonly #groups: { value: unknown; tag: unknown }[][];

  constructor(batch: NonNullable<Plan['batch']>) {
    this.#batch = batch;
    const count = batch.node === 'bucketByLength' ? batch.boundaries.length + 1 : 1;
    this.#groups = Array.from({ length: count }, () => []);
  }

  /** The batch that is full with this element; undefined if none is. */
  add(value: unknown, tag: unknown): Grouped | undefined {
    const bucket = this.#bucketOf(value);
    const group = this.#groups[bucket] as { value: unknown; tag: unknown }[];
    group.push({ value, tag });
    const { node } = this.#batch;
    const size = node === 'bucketByLength' ? this.#batch.batchSizes[bucket] : this.#batch.size;
    return group.length >= (size as number) ? this.#made(bucket) : undefined;
  }

  /** At the end of an epoch: what is left, unless it is to be dropped. */
  rest(): Grouped[] {
    const drops = this.#batch.node !== 'bucketByLength' && this.#batch.dropRemainder;
    const left: Grouped[] = [];
    for (const [bucket, group] of this.#groups.entries()) {
      if (group.length === 0) continue;
      const made = this.#made(bucket);
      if (!drops) left.push(made);
    }
    return left;
  }

  #made(bucket: number): Grouped {
    const group = this.#groups[bucket] as { value: unknown; tag: unknown }[];
    this.#groups[bucket] = [];
    const padding = this.#batch.node === 'batch' ? undefined : this.#batch.padding;
    const value = stackElements(
      group.map((each) => each.value),
      { allocate: allocatePlain, padding },
    );
    return { value, last: group.at(-1)?.tag };
  }

  #bucketOf(value: unknown): number {
    if (this.#batch.node !== 'bucketByLength') return 0;
    const { key, boundaries } = this.#batch;
    const length = lengthOf((Object(value) as Record<string, unknown>)[key]);
    if (length === undefined) {
      throw new HorovodError(
        'ERR_HVD_INVALID_ARGUMENT',
        `bucketByLength(): an element has no "${key}" that has a length: a tensor, a list or a text.`,
      );
    }
    const bucket = boundaries.findIndex((boundary) => length < boundary);
    return bucket < 0 ? boundaries.length : bucket;
  }
}

function lengthOf(value: unknown): number | undefined {
  if (isTensor(value)) return value.shape[0];
  const { length } = Object(value) as { length?: unknown };
  return typeof length === 'number' ? length : undefined;
}
