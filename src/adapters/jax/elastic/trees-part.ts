// Trees of jax-js arrays as a part of a state. Arrays are never changed in place, so a commit keeps references to them. jax-js *moves*
// arrays: a function that is given one uses up a reference. The state owns one reference of each array in its trees, and each commit
// that is kept another.

import { createHash } from 'node:crypto';
import type * as jax from '@jax-js/jax';
import type { StatePart, SyncPlan } from '../../../elastic/runner.ts';
import { bytesOf } from '../../../tensor/tensor.ts';
import { isArray, readArraySync } from '../arrays.ts';
import { broadcastParameters } from '../collectives.ts';

/** Trees by name: lists and plain objects around arrays. */
export type Trees = Record<string, unknown>;

export type CountedArray = jax.Array & { readonly refCount: number };

export class TreesPart implements StatePart {
  readonly hasSlots = true;
  protected readonly trees: Trees;
  /** By slot. */
  readonly #kept: (Trees | undefined)[] = [];

  constructor(trees: Trees) {
    this.trees = trees;
  }

  canSave(): boolean {
    return !isWithinStep(this.trees);
  }

  save(slot = 0): void {
    const before = this.#kept[slot];
    this.#kept[slot] = referTo(this.trees);
    disposeAll(before);
  }

  restore(slot = 0): void {
    const kept = this.#kept[slot];
    if (kept === undefined) return;
    const wanted = countOf(arraysOf(kept));
    const held = countOf(this.#kept.flatMap(arraysOf));
    for (const array of arraysOf(this.trees)) {
      if (!wanted.has(array) && array.refCount > (held.get(array) ?? 0)) array.dispose();
    }
    for (const [array, count] of wanted) {
      // A step that has failed may have used up the references of the state, or not.
      while (array.refCount < (held.get(array) as number) + count) void array.ref;
    }
    for (const name of Object.keys(this.trees)) delete this.trees[name];
    Object.assign(this.trees, copyOf(kept));
  }

  forget(slot: number): void {
    disposeAll(this.#kept[slot]);
    this.#kept[slot] = undefined;
  }

  async sync(root: number, { lacking }: SyncPlan): Promise<void> {
    if (lacking.length === 0) return;
    const received = await broadcastParameters(referTo(this.shared()), root);
    const own = arraysOf(this.shared());
    Object.assign(this.trees, this.merged(received, this.trees));
    for (const array of own) array.dispose();
  }

  digest(): string {
    const hash = createHash('sha256');
    for (const array of arraysOf(this.shared())) hash.update(bytesOf(readArraySync(array.ref).data));
    return hash.digest('hex');
  }

  /** What is equal on all ranks. */
  protected shared(): Trees {
    return this.trees;
  }

  /** `received`: what shared() was on another rank. */
  protected merged(received: Trees, _own: Trees): Trees {
    return received;
  }
}

/** Whether a tree has sums of a step of several passes (backwardPassesPerStep) that is not complete. */
function isWithinStep(tree: unknown): boolean {
  if (typeof tree !== 'object' || tree === null || isArray(tree)) return false;
  if ('passes' in tree && 'inner' in tree && 'sum' in tree) return tree.passes !== 0;
  return Object.values(tree).some(isWithinStep);
}

/** All arrays of a tree. */
export function arraysOf(tree: unknown): CountedArray[] {
  if (isArray(tree)) return [tree as CountedArray];
  return typeof tree === 'object' && tree !== null ? Object.values(tree).flatMap(arraysOf) : [];
}

/** The same tree with other arrays, or something else in their places. `path` is that of takeApart(). */
export function mapArrays<T>(
  tree: T,
  change: (array: CountedArray, path: string) => unknown,
  path: string = '',
): T {
  if (isArray(tree)) return change(tree as CountedArray, path) as T;
  if (Array.isArray(tree)) return tree.map((each, i) => mapArrays(each, change, `${path}[${i}]`)) as T;
  if (typeof tree !== 'object' || tree === null) return tree;
  return Object.fromEntries(
    Object.entries(tree).map(([key, each]) => [
      key,
      mapArrays(each, change, path === '' ? key : `${path}.${key}`),
    ]),
  ) as T;
}

/** The same arrays in new lists and objects. */
function copyOf<T>(tree: T): T {
  return mapArrays(tree, (array) => array);
}

/** The same tree, with one more reference to each array. */
function referTo<T>(tree: T): T {
  return mapArrays(tree, (array) => array.ref);
}

function disposeAll(tree: unknown): void {
  for (const array of arraysOf(tree)) array.dispose();
}

function countOf(arrays: readonly CountedArray[]): Map<CountedArray, number> {
  const counts = new Map<CountedArray, number>();
  for (const array of arrays) counts.set(array, (counts.get(array) ?? 0) + 1);
  return counts;
}
