// Trees of arrays ("pytrees"): lists and plain objects around arrays, as jax-js has them for parameters, gradients and
// the state of optimizers. Leaves are taken in the order of their paths, keys sorted: two ranks that have built the
// same object in another order still mean the same leaf.

import type * as jax from '@jax-js/jax';
import { HorovodError } from '../../errors.ts';
import type { DType } from '../../tensor/dtype.ts';
import { describe, type Tensor } from '../../tensor/tensor.ts';
import {
  type ArrayKind,
  checkMovable,
  coreDtype,
  isArray,
  isTracer,
  kindOf,
  makeArray,
  readArray,
  readArraySync,
} from './arrays.ts';

/** One value of a tree that takes part in a collective. */
export interface Leaf {
  /** `layers[0].weights`; empty for an array that is no tree. */
  readonly path: string;
  /** As the frameworks name it: 'uint32', 'number'. */
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly coreDtype: DType;
  readonly value: jax.Array | number;
}

/** A tree taken apart: its leaves in their order, and how to put it together again. */
export interface Leaves<T> {
  readonly leaves: readonly Leaf[];
  /** Uses up one reference of each array. */
  readSync(): Tensor[];
  read(): Promise<Tensor[]>;
  /** The same tree around these values; a number comes back as a number. */
  rebuild(values: readonly Tensor[]): T;
}

/** `what` is named in errors. Nothing is used up if it throws. */
export function takeApart<T>(tree: T, what: string): Leaves<T> {
  const leaves: Leaf[] = [];
  const build = visit(tree, '', leaves, what);
  return {
    leaves,
    readSync: () =>
      leaves.map(({ value }) => (typeof value === 'number' ? scalar(value) : readArraySync(value))),
    // All begin before the first is awaited.
    read: () =>
      Promise.all(leaves.map(({ value }) => (typeof value === 'number' ? scalar(value) : readArray(value)))),
    rebuild: (values) => build(values[Symbol.iterator]()) as T,
  };
}

/** How two ranks compare their trees: a line for each leaf. */
export function signatureOf(leaves: readonly Leaf[]): string[] {
  return leaves.map(describeLeaf);
}

export function describeLeaf({ path, dtype, shape }: Leaf): string {
  return `${path || 'the array'} (${dtype}${dtype === 'number' ? '' : ` [${shape.join(', ')}]`})`;
}

type Build = (values: Iterator<Tensor>) => unknown;

function visit(node: unknown, path: string, leaves: Leaf[], what: string): Build {
  // JAX's trees skip these: a missing gradient, the state of an optimizer without state.
  if (node === null || node === undefined) return () => node;
  if (typeof node === 'number') {
    leaves.push({ path, dtype: 'number', shape: [], coreDtype: 'float64', value: node });
    return (values) => (values.next().value as Tensor).data[0];
  }
  if (isArray(node)) {
    const kind: ArrayKind = kindOf(node);
    checkMovable(kind.dtype, node.size, path === '' ? `${what}: the array` : `${what}: ${path}`);
    leaves.push({
      path,
      dtype: kind.dtype,
      shape: node.shape,
      coreDtype: coreDtype(kind.dtype),
      value: node,
    });
    return (values) => makeArray(kind, values.next().value as Tensor);
  }
  if (Array.isArray(node)) {
    const children = node.map((child, i) => visit(child, `${path}[${i}]`, leaves, what));
    return (values) => children.map((build) => build(values));
  }
  if (isPlainObject(node)) {
    const keys = Object.keys(node);
    const children = new Map<string, Build>();
    for (const key of [...keys].sort())
      children.set(key, visit(node[key], path === '' ? key : `${path}.${key}`, leaves, what));
    return (values) => {
      const built = new Map([...children].map(([key, build]) => [key, build(values)]));
      // In the user's order, which jit() takes for part of the structure.
      return Object.fromEntries(keys.map((key) => [key, built.get(key)]));
    };
  }
  throw wrongLeaf(node, path, what);
}

function wrongLeaf(node: unknown, path: string, what: string): HorovodError {
  const where = path === '' ? what : `${what}: ${path}`;
  const text = isTracer(node)
    ? 'has no value yet: it is traced by jit(), grad() or vmap(). Call collectives outside of them, for example between a ' +
      'jitted gradient function and a jitted update.'
    : `is ${describe(node)}; a tree has arrays of jax-js, numbers, null, and lists and plain objects of them.`;
  return new HorovodError('ERR_HVD_INVALID_ARGUMENT', `${where} ${text}`);
}

function isPlainObject(node: unknown): node is Record<string, unknown> {
  return typeof node === 'object' && node !== null && node.constructor === Object;
}

function scalar(value: number): Tensor {
  return { data: Float64Array.of(value), shape: [], dtype: 'float64' };
}
