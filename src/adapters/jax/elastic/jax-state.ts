// JaxState: trees of jax-js arrays (parameters, the state of optimizers), and fields. Arrays are never changed in place, so a commit keeps
// references to them. jax-js *moves* arrays: a function that is given one uses up a reference. The state owns one reference of each
// array in its trees, and a commit another.

import { createHash } from 'node:crypto';
import type * as jax from '@jax-js/jax';
import { partsOfFields } from '../../../elastic/object-state.ts';
import type { StatePart, SyncPlan } from '../../../elastic/runner.ts';
import { State } from '../../../elastic/state.ts';
import { checkNames, invalid } from '../../../operations/check-options.ts';
import { bytesOf, describe } from '../../../tensor/tensor.ts';
import { isArray, readArraySync } from '../arrays.ts';
import { broadcastParameters } from '../collectives.ts';
import { treeResidualsOf } from '../distributed-optimizer.ts';
import type { TreeResiduals } from '../tree-residuals.ts';
import { takeApart } from '../trees.ts';

/** Trees by name: lists and plain objects around arrays. */
export type Trees = Record<string, unknown>;

export interface JaxParts<T extends object = Trees> {
  /** Each step replaces them: `state.trees.params = applyUpdates(state.trees.params, updates)`. */
  readonly trees: T;
  /**
   * With lossy compression: the distributed optimizer, or the function of valueAndGrad(), so that what was not sent yet goes back
   * to the commit, too. Several as a list.
   */
  readonly optimizer?: object | readonly object[] | undefined;
}

/** A state of trees of jax-js arrays, and of fields as ObjectState has them. */
export type JaxState<T extends object = Trees, F extends object = object> = State &
  Omit<F, 'trees' | 'optimizer'> & { readonly trees: T };
export const JaxState: new <T extends object, F extends object>(content: JaxParts<T> & F) => JaxState<T, F> =
  class JaxState extends State {
    readonly trees: Trees;
    readonly #parts: readonly StatePart[];

    constructor(content: JaxParts) {
      super();
      const what = 'JaxState';
      checkNames(content, Object.keys(Object(content)), what);
      const { trees, optimizer, ...fields } = content;
      if (typeof trees !== 'object' || trees === null || Array.isArray(trees)) {
        throw invalid(what, `trees is an object of trees, such as { params }, not ${describe(trees)}`);
      }
      takeApart(trees, what); // throws where something is no tree
      this.trees = { ...trees };
      const residuals = [optimizer ?? []].flat().flatMap((each) => treeResidualsOf(each) ?? []);
      this.#parts = [
        ...partsOfFields(this, fields, what),
        new TreesPart(this.trees),
        ...residuals.map((each) => new ResidualsPart(each, this.trees)),
      ];
    }

    protected override parts(): readonly StatePart[] {
      return this.#parts;
    }
  } as unknown as new <T extends object, F extends object>(
    content: JaxParts<T> & F,
  ) => JaxState<T, F>;

type CountedArray = jax.Array & { readonly refCount: number };

class TreesPart implements StatePart {
  readonly #trees: Trees;
  #kept: Trees = {};

  constructor(trees: Trees) {
    this.#trees = trees;
  }

  canSave(): boolean {
    return !isWithinStep(this.#trees);
  }

  save(): void {
    const before = this.#kept;
    this.#kept = referTo(this.#trees);
    for (const array of arraysOf(before)) array.dispose();
  }

  restore(): void {
    const kept = new Set(arraysOf(this.#kept));
    for (const array of arraysOf(this.#trees)) {
      if (!kept.has(array) && array.refCount > 0) array.dispose();
    }
    for (const array of kept) {
      // One reference is the commit's. A step that has failed may have used up that of the state, or not.
      if (array.refCount < 2) void array.ref;
    }
    for (const name of Object.keys(this.#trees)) delete this.#trees[name];
    Object.assign(this.#trees, copyOf(this.#kept));
  }

  async sync(root: number, { lacking }: SyncPlan): Promise<void> {
    if (lacking.length === 0) return;
    const received = await broadcastParameters(referTo(this.#trees), root);
    const own = arraysOf(this.#trees);
    Object.assign(this.#trees, received);
    for (const array of own) array.dispose();
  }

  digest(): string {
    const hash = createHash('sha256');
    for (const array of arraysOf(this.#trees)) hash.update(bytesOf(readArraySync(array.ref).data));
    return hash.digest('hex');
  }
}

/** What a lossy compressor keeps for an optimizer. */
class ResidualsPart implements StatePart {
  readonly #residuals: TreeResiduals;
  readonly #trees: Trees;

  constructor(residuals: TreeResiduals, trees: Trees) {
    this.#residuals = residuals;
    this.#trees = trees;
  }

  save(): void {
    this.#residuals.save(0);
  }

  restore(): void {
    this.#residuals.goBack(0);
  }

  async sync(root: number, { lacking }: SyncPlan): Promise<void> {
    await this.#residuals.sync(root, lacking, arraysOf(this.#trees).length);
  }

  digest(): string {
    return this.#residuals.digest(arraysOf(this.#trees).length);
  }
}

/** Whether a tree has sums of a step of several passes (backwardPassesPerStep) that is not complete. */
function isWithinStep(tree: unknown): boolean {
  if (typeof tree !== 'object' || tree === null || isArray(tree)) return false;
  if ('passes' in tree && 'inner' in tree && 'sum' in tree) return tree.passes !== 0;
  return Object.values(tree).some(isWithinStep);
}

/** All arrays of a tree. */
function arraysOf(tree: unknown): CountedArray[] {
  if (isArray(tree)) return [tree as CountedArray];
  return typeof tree === 'object' && tree !== null ? Object.values(tree).flatMap(arraysOf) : [];
}

/** The same tree, with one more reference to each array. */
function referTo<T>(tree: T): T {
  for (const array of arraysOf(tree)) void array.ref;
  return copyOf(tree);
}

/** The same arrays in new lists and objects. */
function copyOf<T>(tree: T): T {
  if (isArray(tree) || typeof tree !== 'object' || tree === null) return tree;
  if (Array.isArray(tree)) return tree.map(copyOf) as T;
  return Object.fromEntries(Object.entries(tree).map(([name, each]) => [name, copyOf(each)])) as T;
}
