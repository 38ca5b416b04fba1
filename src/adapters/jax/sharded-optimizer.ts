// The optimizer of horovod/jax whose state is sharded over the ranks (ZeRO-1). All leaves of a tree, flat and one after the
// other, are one vector, filled up with zeros to a multiple of the ranks; each rank's optimizer knows one part of it only, as
// an array. update() reduces and scatters the gradients, updates the part, and gathers the parts of the updates.

import * as jax from '@jax-js/jax';
import {
  allgather,
  allgatherSync,
  reducescatter,
  reducescatterSync,
} from '../../context/default/default-collectives.ts';
import { globalProcessSet } from '../../context/default/default-context.ts';
import { rank } from '../../context/default/default-membership.ts';
import { HorovodError } from '../../errors.ts';
import type { ReduceOptions } from '../../operations/options.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import type { GradientTransformation } from './optimizers.ts';
import { describeLeaf, type Leaf, type Leaves, takeApart } from './trees.ts';

/** Both forms of update(), and the state in one piece. */
export interface ShardedTransformation<Params, State> extends GradientTransformation<Params, State> {
  updateAsync(grads: Params, state: State, params?: Params): Promise<[updates: Params, state: State]>;
  /**
   * The state with its parts put together, the same on every rank: for checkpoints. Collective; uses up the state. Arrays of
   * the optimizer's are flat, in the order of the tree's leaves.
   */
  gatherState(state: State): State;
  /** The part of this rank of what gatherState() gave, with any number of ranks. Uses it up. */
  shardState(state: State): State;
}

const what = 'DistributedOptimizer';

/** What all members of the set know of the vector. */
interface Vector {
  readonly total: number;
  /** With the zeros at its end. */
  readonly padded: number;
  /** Of each rank's part. */
  readonly length: number;
  /** Where this rank's part begins. */
  readonly from: number;
}

/** For more than one rank. */
export function shardedOptimizer<Params, State>(
  optimizer: GradientTransformation<Params, State>,
  options: ReduceOptions,
): ShardedTransformation<Params, State> {
  const { processSet = globalProcessSet } = options;
  let known: Vector | undefined;
  const vectorOf = (leaves: readonly Leaf[]): Vector => {
    const total = leaves.reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0);
    const { ranks } = processSet;
    const length = Math.max(Math.ceil(total / ranks.length), 1);
    known = { total, padded: length * ranks.length, length, from: ranks.indexOf(rank()) * length };
    return known;
  };
  const partOf = (tree: Params): jax.Array => {
    const parts = takeFloats(tree);
    const vector = vectorOf(parts.leaves);
    const { from, length } = vector;
    return jax.numpy.array(flatOf(parts.readSync(), vector).slice(from, from + length));
  };
  const step = (
    shard: Float32Array,
    state: State,
    params: Params | undefined,
  ): [update: Float32Array, state: State] => {
    const part = params === undefined ? undefined : partOf(params);
    const [update, next] = optimizer.update(
      jax.numpy.array(shard) as Params,
      state,
      part as Params | undefined,
    );
    return [(update as jax.Array).dataSync() as Float32Array, next];
  };
  const mapParts = (
    tree: State,
    isPart: (leaf: Leaf) => boolean,
    change: (values: Tensor) => Tensor,
  ): State => {
    const parts = takeApart(tree, what);
    const tensors = parts.readSync();
    return parts.rebuild(
      tensors.map((tensor, i) => (isPart(parts.leaves[i] as Leaf) ? change(tensor) : tensor)),
    );
  };
  const checkKnown = (): Vector => {
    if (known !== undefined) return known;
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what}: with shardOptimizerState the parameters must be known before the state is gathered or sharded; call init() first.`,
    );
  };
  return {
    init: (params) => optimizer.init(partOf(params) as Params),
    update(grads, state, params) {
      const parts = takeFloats(grads);
      const vector = vectorOf(parts.leaves);
      const shard = reducescatterSync(flatOf(parts.readSync(), vector), options);
      const [update, next] = step(shard, state, params);
      return [treeOf(parts, allgatherSync(update, { processSet })), next];
    },
    async updateAsync(grads, state, params) {
      const parts = takeFloats(grads);
      const vector = vectorOf(parts.leaves);
      const shard = await reducescatter(flatOf(await parts.read(), vector), options);
      const [update, next] = step(shard, state, params);
      return [treeOf(parts, await allgather(update, { processSet })), next];
    },
    gatherState(state) {
      const { total, length } = checkKnown();
      return mapParts(
        state,
        ({ shape }) => shape.length === 1 && shape[0] === length,
        (part) => {
          const data = allgatherSync(part, { processSet }).data.slice(0, total);
          return { ...part, data, shape: [total] };
        },
      );
    },
    shardState(state) {
      const { total, length, from } = checkKnown();
      return mapParts(
        state,
        ({ shape }) => shape.length === 1 && shape[0] === total,
        (full) => {
          const data = new Float32Array(length);
          data.set((full.data as Float32Array).slice(from, from + length));
          return { ...full, data, shape: [length] };
        },
      );
    },
  };
}

/** The tree's leaves, which must be arrays of float32: others cannot lie in one vector. */
function takeFloats<T>(tree: T): Leaves<T> {
  const parts = takeApart(tree, what);
  const other = parts.leaves.find(({ dtype }) => dtype !== 'float32');
  if (other === undefined) return parts;
  throw new HorovodError(
    'ERR_HVD_INVALID_DTYPE',
    `${what}: shardOptimizerState takes trees of float32 arrays, and there is ${describeLeaf(other)}.`,
  );
}

function flatOf(tensors: readonly Tensor[], { padded }: Vector): Float32Array {
  const flat = new Float32Array(padded);
  let at = 0;
  for (const { data } of tensors) {
    flat.set(data as Float32Array, at);
    at += data.length;
  }
  return flat;
}

function treeOf<T>({ leaves, rebuild }: Leaves<T>, flat: Float32Array): T {
  let at = 0;
  return rebuild(
    leaves.map(({ shape }): Tensor => {
      const size = shape.reduce((a, b) => a * b, 1);
      at += size;
      return { data: flat.slice(at - size, at), shape, dtype: 'float32' };
    }),
  );
}
