// The optimizer of horovod/jax whose state is sharded over the ranks (ZeRO-1). All leaves of a tree, flat and one after the
// other, are one vector, padded with zeros to a multiple of the ranks; each rank's optimizer sees one part of it, as an
// array. A step reduces and scatters the gradients, updates the part, and gathers the parts of the updates.

import * as jax from '@jax-js/jax';
import { HorovodError } from '../../errors.ts';
import { invalid } from '../../operations/check-options.ts';
import { allgather, allgatherSync, reducescatter, reducescatterSync } from '../../operations/collectives.ts';
import type { ProcessSet } from '../../operations/process-set.ts';
import { elementsIn, type Tensor } from '../../tensor/tensor.ts';
import { wait } from '../both-forms.ts';
import { currentContext, globalProcessSet, hasContext, isElasticJob, rank } from '../context.ts';
import type { Reduction } from '../gradient-options.ts';
import { paddedLength } from '../sharding/bounds.ts';
import type { DistributedSteps } from './distributed-optimizer.ts';
import type { GradientTransformation } from './optimizers.ts';
import type { Cut, TreeShards } from './tree-shards.ts';
import { describeLeaf, type Leaf, type Leaves, takeApart } from './trees.ts';

/** The vector, and this rank's part of it. */
interface Vector extends Cut {
  /** With the zeros at its end. */
  readonly padded: number;
  /** Of each rank's part. */
  readonly length: number;
  /** Where this rank's part begins. */
  readonly from: number;
}

/** For any number of ranks. Notes in `shards` which arrays are parts. */
export function shardedOptimizer<Params, State>(
  optimizer: GradientTransformation<Params, State>,
  reduction: Reduction,
  shards: TreeShards,
): DistributedSteps<Params, State> {
  const { what, op, compression, prescaleFactor, postscaleFactor, processSet = globalProcessSet } = reduction;
  const options = { op, compression, prescaleFactor, postscaleFactor, processSet };
  let total: number | undefined;
  const vectorOf = (elements: number): Vector => {
    total = elements;
    const { index, members } = placeIn(processSet);
    const length = paddedLength(elements, members);
    return { total: elements, index, members, padded: length * members, length, from: index * length };
  };
  const vectorOfLeaves = (leaves: readonly Leaf[]) =>
    vectorOf(leaves.reduce((sum, { shape }) => sum + elementsIn(shape), 0));
  const partOf = (tree: Params): { part: Params; vector: Vector } => {
    const parts = takeFloats(tree, what);
    const vector = vectorOfLeaves(parts.leaves);
    const { from, length } = vector;
    const part = jax.numpy.array(flatOf(parts.readSync(), vector).slice(from, from + length));
    return { part: part as Params, vector };
  };
  const noted = (state: State, vector: Vector): State => {
    shards.noteAll(takeApart(state, what).leaves, vector);
    return state;
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
  const known = (): Vector => {
    if (total !== undefined) return vectorOf(total);
    throw invalid(
      what,
      'with shardOptimizerState the parameters must be known before the state is gathered or sharded; call init() first',
    );
  };
  return {
    init(params) {
      const { part, vector } = partOf(params);
      return noted(optimizer.init(part), vector);
    },
    *step(grads, state, params) {
      const context = currentContext();
      const parts = takeFloats(grads, what);
      const vector = vectorOfLeaves(parts.leaves);
      if (context.isElastic) shards.checkState(takeApart(state, what).leaves, vector);
      const tensors = yield* wait(
        () => parts.readSync(),
        () => parts.read(),
      );
      const flat = flatOf(tensors, vector);
      const shard = yield* wait(
        () => reducescatterSync(context, flat, options),
        () => reducescatter(context, flat, options),
      );
      shards.reductions++;
      const part = params === undefined ? undefined : partOf(params).part;
      const [update, next] = optimizer.update(jax.numpy.array(shard) as Params, state, part);
      noted(next, vector);
      const values = (update as jax.Array).dataSync() as Float32Array;
      const all = yield* wait(
        () => allgatherSync(context, values, { processSet }),
        () => allgather(context, values, { processSet }),
      );
      return [treeOf(parts, all), next];
    },
    gatherState(state) {
      const { total, length } = known();
      return mapParts(
        state,
        ({ shape }) => shape.length === 1 && shape[0] === length,
        (part) => {
          const data = allgatherSync(currentContext(), part, { processSet }).data.slice(0, total);
          return { ...part, data, shape: [total] };
        },
      );
    },
    shardState(state) {
      const vector = known();
      const { total, length, from } = vector;
      const mine = mapParts(
        state,
        ({ shape }) => shape.length === 1 && shape[0] === total,
        (full) => {
          const data = new Float32Array(length);
          data.set((full.data as Float32Array).slice(from, from + length));
          return { ...full, data, shape: [length] };
        },
      );
      return noted(mine, vector);
    },
  };
}

/** In an elastic job there are no other ranks before elastic.run(): the state is whole, and cut when the ranks are there. */
function placeIn({ ranks }: ProcessSet): { index: number; members: number } {
  if (isElasticJob() && !hasContext()) return { index: 0, members: 1 };
  return { index: ranks.indexOf(rank()), members: ranks.length };
}

/** The tree's leaves, which must be arrays of float32: others cannot lie in one vector. */
function takeFloats<T>(tree: T, what: string): Leaves<T> {
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
      const size = elementsIn(shape);
      at += size;
      return { data: flat.slice(at - size, at), shape, dtype: 'float32' };
    }),
  );
}
