// The optimizer of horovod/jax whose state is sharded over the ranks (ZeRO-1). All leaves of a tree, flat and one after the
// other, are one vector, padded with zeros to a multiple of the ranks; each rank's optimizer sees one part of it, as an
// array. A step reduces and scatters the gradients, updates the part, and gathers the parts of the updates.

import * as jax from '@jax-js/jax';
import { HorovodError } from '../../errors.ts';
import { invalid } from '../../operations/check-options.ts';
import { allgather, allgatherSync, reducescatter, reducescatterSync } from '../../operations/collectives.ts';
import { elementsIn, type Tensor } from '../../tensor/tensor.ts';
import { wait } from '../both-forms.ts';
import { currentContext, globalProcessSet, rank } from '../context.ts';
import type { Reduction } from '../gradient-options.ts';
import type { DistributedSteps } from './distributed-optimizer.ts';
import type { GradientTransformation } from './optimizers.ts';
import { describeLeaf, type Leaf, type Leaves, takeApart } from './trees.ts';

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
  reduction: Reduction,
): DistributedSteps<Params, State> {
  const { what, op, compression, prescaleFactor, postscaleFactor, processSet = globalProcessSet } = reduction;
  const options = { op, compression, prescaleFactor, postscaleFactor, processSet };
  let known: Vector | undefined;
  const vectorOf = (leaves: readonly Leaf[]): Vector => {
    const total = leaves.reduce((sum, { shape }) => sum + elementsIn(shape), 0);
    const { ranks } = processSet;
    const length = Math.max(Math.ceil(total / ranks.length), 1);
    known = { total, padded: length * ranks.length, length, from: ranks.indexOf(rank()) * length };
    return known;
  };
  const partOf = (tree: Params): jax.Array => {
    const parts = takeFloats(tree, what);
    const vector = vectorOf(parts.leaves);
    const { from, length } = vector;
    return jax.numpy.array(flatOf(parts.readSync(), vector).slice(from, from + length));
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
    throw invalid(
      what,
      'with shardOptimizerState the parameters must be known before the state is gathered or sharded; call init() first',
    );
  };
  return {
    init: (params) => optimizer.init(partOf(params) as Params),
    *step(grads, state, params) {
      const context = currentContext();
      const parts = takeFloats(grads, what);
      const vector = vectorOf(parts.leaves);
      const tensors = yield* wait(
        () => parts.readSync(),
        () => parts.read(),
      );
      const flat = flatOf(tensors, vector);
      const shard = yield* wait(
        () => reducescatterSync(context, flat, options),
        () => reducescatter(context, flat, options),
      );
      const part = params === undefined ? undefined : (partOf(params) as Params);
      const [update, next] = optimizer.update(jax.numpy.array(shard) as Params, state, part);
      const values = (update as jax.Array).dataSync() as Float32Array;
      const all = yield* wait(
        () => allgatherSync(context, values, { processSet }),
        () => allgather(context, values, { processSet }),
      );
      return [treeOf(parts, all), next];
    },
    gatherState(state) {
      const { total, length } = checkKnown();
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

/** A tree of shards looks like any other: a commit of it would be given to other ranks as if it were theirs. */
export function checkNotElastic(what: string): void {
  if (!currentContext().isElastic) return;
  throw new HorovodError(
    'ERR_HVD_UNSUPPORTED',
    `${what}: with jax, shardOptimizerState is not supported in elastic jobs: the state of a lost rank would be lost with it. ` +
      'Leave it out, or use TensorFlow.js.',
  );
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
