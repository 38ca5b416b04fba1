// Collectives on jax-js arrays and on trees of them. Ownership follows jax-js: a call uses up one reference of every
// array it is given and returns new arrays with one reference each, the caller's. An argument that is rejected before
// anything was sent is not used up; one whose operation failed is.

import { HorovodError } from '../../errors.ts';
import { type CollectiveOptions, invalidArgument, type ReduceOptions } from '../../operations/options.ts';
import type { TypedArray } from '../../tensor/dtype.ts';
import { bytesOf, type Tensor, type TensorLike, viewLike } from '../../tensor/tensor.ts';
import { type BothForms, run, runSync, wait } from '../both-forms.ts';
import { core } from '../context.ts';
import { isArray } from './arrays.ts';
import { describeLeaf, type Leaf, type Leaves, signatureOf, takeApart } from './trees.ts';

/** Reduces an array, a tree of arrays or a typed array over all ranks; Average unless `op` says otherwise. */
export async function allreduce<T>(x: T, options: ReduceOptions = {}): Promise<T> {
  return isTensorLike(x) ? core.allreduce(x, options) : allreduceTree(x, options);
}

/** The blocking form of allreduce(). */
export function allreduceSync<T>(x: T, options: ReduceOptions = {}): T {
  return isTensorLike(x) ? core.allreduceSync(x, options) : allreduceTreeSync(x, options);
}

/**
 * Reduces all leaves of a tree in one agreed operation, fused by dtype, all or nothing, and keeps the structure.
 * Uses up the tree.
 */
export async function allreduceTree<T>(tree: T, options: ReduceOptions = {}): Promise<T> {
  return run(reduced(tree, options));
}

/** The blocking form of allreduceTree(). */
export function allreduceTreeSync<T>(tree: T, options: ReduceOptions = {}): T {
  return runSync(reduced(tree, options));
}

/** Concatenates the ranks' arrays (each leaf of a tree) along the first dimension, which may differ. Uses them up. */
export async function allgather<T>(x: T, options: CollectiveOptions = {}): Promise<T> {
  return isTensorLike(x) ? core.allgather(x, options) : run(gathered(x, options));
}

/** The blocking form of allgather(). */
export function allgatherSync<T>(x: T, options: CollectiveOptions = {}): T {
  return isTensorLike(x) ? core.allgatherSync(x, options) : runSync(gathered(x, options));
}

/** The root's array (or tree of arrays), on every rank. `rootRank` is a global rank. Uses it up. */
export async function broadcast<T>(x: T, rootRank: number, options: CollectiveOptions = {}): Promise<T> {
  return isTensorLike(x) ? core.broadcast(x, rootRank, options) : broadcastParameters(x, rootRank, options);
}

/** The blocking form of broadcast(). */
export function broadcastSync<T>(x: T, rootRank: number, options: CollectiveOptions = {}): T {
  if (isTensorLike(x)) return core.broadcastSync(x, rootRank, options);
  return broadcastParametersSync(x, rootRank, options);
}

/**
 * The root's parameters (or state of an optimizer: any tree), on every rank, so that all begin with the same. Trees
 * that differ are an error on every rank, which names the first leaf that does. Uses up the tree.
 */
export async function broadcastParameters<T>(
  params: T,
  rootRank = 0,
  options: CollectiveOptions = {},
): Promise<T> {
  return run(received(params, rootRank, options));
}

/** The blocking form of broadcastParameters(). */
export function broadcastParametersSync<T>(params: T, rootRank = 0, options: CollectiveOptions = {}): T {
  return runSync(received(params, rootRank, options));
}

function* reduced<T>(tree: T, options: ReduceOptions): BothForms<T> {
  const parts = takeApart(tree, 'allreduceTree');
  checkReducible(parts.leaves);
  return yield* together(
    parts,
    { ...options, inPlace: true },
    core.groupedAllreduceSync,
    core.groupedAllreduce,
  );
}

function* gathered<T>(tree: T, options: CollectiveOptions): BothForms<T> {
  const parts = takeApart(tree, 'allgather');
  checkGatherable(parts.leaves);
  return yield* together(parts, options, core.groupedAllgatherSync, core.groupedAllgather);
}

/** All leaves in one operation of the core. */
function* together<T, O>(
  { leaves, readSync, read, rebuild }: Leaves<T>,
  options: O,
  blocking: (tensors: Tensor[], options: O) => Tensor[],
  later: (tensors: Tensor[], options: O) => Promise<Tensor[]>,
): BothForms<T> {
  const tensors = yield* wait(readSync, read);
  try {
    const results = yield* wait(
      () => blocking(tensors, options),
      () => later(tensors, options),
    );
    return rebuild(results);
  } catch (error) {
    throw withLeaves(error, leaves);
  }
}

function* received<T>(params: T, rootRank: number, options: CollectiveOptions): BothForms<T> {
  const parts = takeApart(params, 'broadcastParameters');
  const signature = signatureOf(parts.leaves);
  const name = options.name === undefined ? undefined : `${options.name}/tree`;
  const trees = yield* wait(
    () => core.allgatherObjectSync(signature, { ...options, name }),
    () => core.allgatherObject(signature, { ...options, name }),
  );
  checkSame(trees, options.processSet?.ranks ?? trees.map((_, rank) => rank));
  const tensors = yield* wait(parts.readSync, parts.read);
  const packed = pack(tensors);
  yield* wait(
    () => core.broadcastSync(packed, rootRank, { ...options, inPlace: true }),
    () => core.broadcast(packed, rootRank, { ...options, inPlace: true }),
  );
  return parts.rebuild(unpack(packed, tensors));
}

function isTensorLike(x: unknown): x is TensorLike {
  if (ArrayBuffer.isView(x)) return true;
  const isObject = typeof x === 'object' && x !== null && !isArray(x);
  return isObject && 'data' in x && ArrayBuffer.isView(x.data) && 'shape' in x && 'dtype' in x;
}

function checkReducible(leaves: readonly Leaf[]): void {
  const leaf = leaves.find(({ dtype }) => dtype === 'uint32');
  if (leaf === undefined) return;
  throw new HorovodError(
    'ERR_HVD_INVALID_DTYPE',
    `allreduceTree: ${describeLeaf(leaf)} cannot be reduced: there is no arithmetic for uint32 here. ` +
      'Use int32 or float32 (x.astype(np.int32)).',
  );
}

function checkGatherable(leaves: readonly Leaf[]): void {
  const leaf = leaves.find(({ shape }) => shape.length === 0);
  if (leaf === undefined) return;
  throw invalidArgument(
    `allgather: ${describeLeaf(leaf)} has no first dimension to concatenate along; use x.reshape([1]).`,
  );
}

/** Ranks disagree about a group of tensors: says which leaves those are. */
function withLeaves(error: unknown, leaves: readonly Leaf[]): unknown {
  if (!HorovodError.is(error) || error.code !== 'ERR_HVD_MISMATCH') return error;
  const shown = leaves.slice(0, 40).map((leaf, i) => `${i}: ${describeLeaf(leaf)}`);
  const more = leaves.length > shown.length ? `, … ${leaves.length} in all` : '';
  const text = `${error.detail} Leaves of this rank's tree: ${shown.join(', ')}${more}.`;
  return new HorovodError(error.code, text, { rank: error.rank, tensor: error.tensor, cause: error });
}

function checkSame(trees: readonly (readonly string[])[], ranks: readonly number[]): void {
  const [first = [], ...others] = trees;
  for (const [i, other] of others.entries()) {
    const place = first.findIndex((leaf, j) => leaf !== other[j]);
    if (place < 0 && first.length === other.length) continue;
    const at = place < 0 ? first.length : place;
    throw new HorovodError(
      'ERR_HVD_MISMATCH',
      `broadcastParameters: the trees differ, first at leaf ${at}: rank ${ranks[0]} has ${first[at] ?? 'no more leaves'}, ` +
        `but rank ${ranks[i + 1]} has ${other[at] ?? 'no more leaves'}. Build the model in the same way on every rank.`,
      { rank: ranks[i + 1] },
    );
  }
}

/** All tensors in one piece of memory: one operation instead of one for each. */
function pack(tensors: readonly Tensor[]): Uint8Array {
  const packed = new Uint8Array(tensors.reduce((sum, { data }) => sum + data.byteLength, 0));
  let at = 0;
  for (const { data } of tensors) {
    packed.set(bytesOf(data), at);
    at += data.byteLength;
  }
  return packed;
}

function unpack(packed: Uint8Array, like: readonly Tensor[]): Tensor[] {
  let at = 0;
  return like.map(({ data, shape, dtype }): Tensor => {
    // A copy: a view of wider elements could not begin at every byte.
    const bytes = packed.slice(at, at + data.byteLength);
    at += data.byteLength;
    return { data: viewLike(data, bytes) as TypedArray, shape, dtype };
  });
}
