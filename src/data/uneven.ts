// Which samples a rank gets, and what happens when they cannot be divided evenly. All ranks must take the same number
// of steps: a rank with one step more would wait for gradients that no other rank sends.
//
// Words. Samples are dealt like cards: rank r of n gets samples r, r + n, r + 2n, … A *deal* is n samples, one for
// each rank; the last deal may be short.

import { rank, size } from '../context/default/default-membership.ts';
import { checkNames, invalid } from '../operations/check-options.ts';
import { describe } from '../tensor/tensor.ts';

/**
 * What happens to a short last deal. 'pad': it is filled up with the first samples, as Horovod's samplers do, so no sample
 * is left out and up to n − 1 are seen twice. 'drop': it is left out. 'keep': some ranks get one sample more; for
 * evaluation, and for loops that end with join().
 */
export type Uneven = 'pad' | 'drop' | 'keep';

export interface ShardOptions {
  /** Number of shards. Default: size(). */
  count?: number | undefined;
  /** Which one. Default: rank(). */
  index?: number | undefined;
  /** Default: 'pad'. */
  uneven?: Uneven | undefined;
}

export interface Shard {
  readonly count: number;
  readonly index: number;
  readonly uneven: Uneven;
  /** Each rank takes its own: all of them should have the same data in the same order. */
  readonly isOfAllRanks: boolean;
}

/** Fills in and checks. */
export function checkedShard(options: ShardOptions, what: string): Shard {
  checkNames(options, ['count', 'index', 'uneven'], what);
  const { uneven = 'pad' } = options;
  const count = options.count ?? size();
  const index = options.index ?? rank();
  const check = (isRight: boolean, name: string, value: unknown, expected: string) => {
    if (!isRight) throw invalid(what, `${name} is ${expected}, not ${describe(value)}`);
  };
  check(Number.isInteger(count) && count >= 1, 'count', count, 'a whole number from 1');
  const isIndex = Number.isInteger(index) && index >= 0 && index < count;
  check(isIndex, 'index', index, `from 0 to ${count - 1}`);
  check(['pad', 'drop', 'keep'].includes(uneven), 'uneven', uneven, "'pad', 'drop' or 'keep'");
  const isOfAllRanks = options.count === undefined && options.index === undefined;
  return { count, index, uneven, isOfAllRanks };
}

/** The places, in a list of `length` samples, of the samples of one shard. */
export function placesOf(length: number, { count, index, uneven }: Omit<Shard, 'isOfAllRanks'>): Int32Array {
  const full = Math.floor(length / count);
  const rest = length - full * count;
  const hasOneMore = uneven === 'pad' ? rest > 0 : uneven === 'keep' && index < rest;
  return Int32Array.from(
    { length: full + (hasOneMore ? 1 : 0) },
    (_, deal) => (deal * count + index) % length,
  );
}
