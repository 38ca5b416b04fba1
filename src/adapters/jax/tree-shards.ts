// Which arrays in trees are shards of a sharded optimizer's state (ZeRO-1), and how they are cut. A shard looks like any other array, so
// the optimizer notes those that it makes. An elastic state asks for it: it gives each rank its own shards, and copies of others.

import type * as jax from '@jax-js/jax';
import { HorovodError } from '../../errors.ts';
import { invalid } from '../../operations/check-options.ts';
import type { Reduction } from '../gradient-options.ts';
import { paddedLength } from '../sharding/bounds.ts';
import type { Leaf } from './trees.ts';

/** A shard of a vector that has been padded with zeros, so that all shards are equally long. */
export interface Cut {
  /** Elements of the vector without the zeros. */
  readonly total: number;
  readonly index: number;
  readonly members: number;
}

export class TreeShards {
  /** Steps of all ranks together. */
  reductions = 0;
  /** A state keeps the trees, so a lost rank does not take its shards with it. */
  isKept = false;
  readonly #reduction: Pick<Reduction, 'what' | 'processSet'>;
  readonly #cuts = new WeakMap<object, Cut>();

  constructor(reduction: Pick<Reduction, 'what' | 'processSet'>) {
    this.#reduction = reduction;
  }

  /** Undefined for arrays that are no shards of this optimizer. */
  cutOf(array: object): Cut | undefined {
    return this.#cuts.get(array);
  }

  note(array: object, cut: Cut): void {
    this.#cuts.set(array, cut);
  }

  /** Notes all arrays of a state that the inner optimizer has made for one shard. */
  noteAll(leaves: readonly Leaf[], cut: Cut): void {
    for (const leaf of leaves) if (isCutSo(leaf, cut)) this.note(leaf.value as jax.Array, cut);
  }

  /** Rejects what cannot be part of an elastic state. */
  checkElastic(what: string): void {
    const set = this.#reduction.processSet;
    if (set === undefined || set.id === 0) return;
    throw invalid(
      what,
      `the state of an optimizer is sharded over some ranks only (${set}); in an elastic state, leave out processSet or shardOptimizerState`,
    );
  }

  /** In an elastic job: rejects a state that would be lost with a rank, or that belongs to other ranks. */
  checkState(leaves: readonly Leaf[], cut: Cut): void {
    const { what } = this.#reduction;
    if (!this.isKept) {
      throw new HorovodError(
        'ERR_HVD_INVALID_ARGUMENT',
        `${what}: in an elastic job, the state of an optimizer with shardOptimizerState is lost with a rank unless a JaxState keeps ` +
          'it: new hvd.elastic.JaxState({ trees: { params, state }, optimizer }).',
      );
    }
    for (const leaf of leaves) {
      const noted = typeof leaf.value === 'number' ? undefined : this.cutOf(leaf.value);
      if (noted === undefined && isCutSo(leaf, cut)) {
        throw invalid(
          what,
          `${leaf.path || 'the state'} is as long as a shard, and was not made by this optimizer; an elastic job could not divide it anew. ` +
            'Pass on the state that init(), update() or shardState() has returned',
        );
      }
      if (noted === undefined || (noted.members === cut.members && noted.index === cut.index)) continue;
      throw new HorovodError(
        'ERR_HVD_STALE',
        `${what}: ${leaf.path || 'the state'} is shard ${noted.index} of ${noted.members}, and this rank needs shard ${cut.index} of ` +
          `${cut.members}: the ranks of the job have changed. Keep the state in \`trees\` of the JaxState, and take it from there in every step.`,
      );
    }
  }
}

function isCutSo({ shape, dtype }: Leaf, { total, members }: Cut): boolean {
  return dtype !== 'number' && shape.length === 1 && shape[0] === paddedLength(total, members);
}
