// Which samples a rank gets, and what happens when they cannot be divided evenly. All ranks must take the same number
// of steps: a rank with a step more waits for gradients that nobody else sends.
//
// Words. Samples are dealt like cards: rank r of n gets samples r, r + n, r + 2n, … A *deal* is n samples, one for
// each rank; the last deal may be short.

import { HorovodError } from '../../../errors.ts';
import { describe } from '../../../tensor/tensor.ts';
import { rank, size } from '../../context.ts';

/**
 * What becomes of a short last deal. 'pad': it is filled up with the first samples again, as Horovod's samplers do, so
 * no sample is left out and up to n − 1 are seen twice. 'drop': it is left out. 'keep': some ranks get one sample
 * more; for evaluation, and for loops that end with join().
 */
export type Uneven = 'pad' | 'drop' | 'keep';

export interface ShardOptions {
  /** Number of shards: size(). */
  count?: number | undefined;
  /** Which one: rank(). */
  index?: number | undefined;
  /** 'pad' unless told otherwise. */
  uneven?: Uneven | undefined;
}

export interface Shard {
  readonly count: number;
  readonly index: number;
  readonly uneven: Uneven;
}

/** Refuses options that are no object, or have a name that is not one of these. */
export function checkOptionNames(options: unknown, names: readonly string[], what: string): void {
  const isObject = typeof options === 'object' && options !== null;
  const unknown = isObject ? Object.keys(options).find((key) => !names.includes(key)) : undefined;
  if (isObject && unknown === undefined) return;
  throw new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    isObject
      ? `${what}: there is no option ${unknown}; there are ${names.join(', ')}.`
      : `${what}: options are an object, not ${describe(options)}.`,
  );
}

/** Fills in and checks. */
export function checkedShard(options: ShardOptions, what: string): Shard {
  checkOptionNames(options, ['count', 'index', 'uneven'], what);
  const { uneven = 'pad' } = options;
  const count = options.count ?? size();
  const index = options.index ?? rank();
  const refuse = (name: string, value: unknown, expected: string): never => {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what}: ${name} is ${expected}, not ${describe(value)}.`,
    );
  };
  if (!Number.isInteger(count) || count < 1) refuse('count', count, 'a whole number from 1');
  if (!Number.isInteger(index) || index < 0 || index >= count)
    refuse('index', index, `from 0 to ${count - 1}`);
  if (!['pad', 'drop', 'keep'].includes(uneven)) refuse('uneven', uneven, "'pad', 'drop' or 'keep'");
  return { count, index, uneven };
}

/** The places, in a list of `length` samples, of the samples of one shard. */
export function placesOf(length: number, { count, index, uneven }: Shard): Int32Array {
  const full = Math.floor(length / count);
  const rest = length - full * count;
  const hasOneMore = uneven === 'pad' ? rest > 0 : uneven === 'keep' && index < rest;
  return Int32Array.from(
    { length: full + (hasOneMore ? 1 : 0) },
    (_, deal) => (deal * count + index) % length,
  );
}
