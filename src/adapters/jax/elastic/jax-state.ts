// JaxState: trees of jax-js arrays (parameters, the state of optimizers), and fields.

import { partsOfFields } from '../../../elastic/object-state.ts';
import type { StatePart, SyncPlan } from '../../../elastic/runner.ts';
import { State } from '../../../elastic/state.ts';
import { checkNames, invalid } from '../../../operations/check-options.ts';
import { describe } from '../../../tensor/tensor.ts';
import { checkMirrorEvery } from '../../sharding/mirror-every.ts';
import { treeResidualsOf, treeShardsOf } from '../distributed-optimizer.ts';
import type { TreeResiduals } from '../tree-residuals.ts';
import { takeApart } from '../trees.ts';
import { ShardedTreesPart } from './sharded-trees-part.ts';
import { arraysOf, type Trees, TreesPart } from './trees-part.ts';

export interface JaxParts<T extends object = Trees> {
  /** Each step replaces them: `state.trees.params = applyUpdates(state.trees.params, updates)`. */
  readonly trees: T;
  /**
   * With shardOptimizerState or lossy compression: the distributed optimizer, or the function of valueAndGrad(). The state then divides
   * its shards among the ranks that there are, and what was not sent yet goes back to the commit, too. Several as a list.
   */
  readonly optimizer?: object | readonly object[] | undefined;
  /**
   * For optimizers with shardOptimizerState: after how many commits each rank sends its shard to another one. Going back after
   * the loss of a rank undoes what was done since. Default: often enough that it costs a hundredth of the time, at most 100.
   */
  readonly mirrorEvery?: number | undefined;
}

/** A state of trees of jax-js arrays, and of fields as ObjectState has them. */
export type JaxState<T extends object = Trees, F extends object = object> = State &
  Omit<F, keyof JaxParts> & { readonly trees: T };
export const JaxState: new <T extends object, F extends object>(content: JaxParts<T> & F) => JaxState<T, F> =
  class JaxState extends State {
    readonly trees: Trees;
    readonly #parts: readonly StatePart[];

    constructor(content: JaxParts) {
      super();
      const what = 'JaxState';
      checkNames(content, Object.keys(Object(content)), what);
      const { trees, optimizer, mirrorEvery, ...fields } = content;
      if (typeof trees !== 'object' || trees === null || Array.isArray(trees)) {
        throw invalid(what, `trees is an object of trees, such as { params }, not ${describe(trees)}`);
      }
      takeApart(trees, what); // throws where something is no tree
      this.trees = { ...trees };
      checkMirrorEvery(mirrorEvery, what);
      const optimizers = [optimizer ?? []].flat();
      const residuals = optimizers.flatMap((each) => treeResidualsOf(each) ?? []);
      const shards = optimizers.flatMap((each) => treeShardsOf(each) ?? []);
      for (const each of shards) {
        each.checkElastic(what);
        each.isKept = true;
      }
      this.#parts = [
        ...partsOfFields(this, fields, what),
        shards.length === 0
          ? new TreesPart(this.trees)
          : new ShardedTreesPart(this.trees, shards, mirrorEvery),
        ...residuals.map((each) => new ResidualsPart(each, this.trees)),
      ];
    }

    protected override parts(): readonly StatePart[] {
      return this.#parts;
    }
  } as unknown as new <T extends object, F extends object>(
    content: JaxParts<T> & F,
  ) => JaxState<T, F>;

/** What a lossy compressor keeps for an optimizer. */
class ResidualsPart implements StatePart {
  readonly hasSlots = true;
  readonly #residuals: TreeResiduals;
  readonly #trees: Trees;

  constructor(residuals: TreeResiduals, trees: Trees) {
    this.#residuals = residuals;
    this.#trees = trees;
  }

  save(slot = 0): void {
    this.#residuals.save(slot);
  }

  restore(slot = 0): void {
    this.#residuals.goBack(slot);
  }

  forget(slot: number): void {
    this.#residuals.forget(slot);
  }

  async sync(root: number, { lacking }: SyncPlan): Promise<void> {
    await this.#residuals.sync(root, lacking, arraysOf(this.#trees).length);
  }

  digest(): string {
    return this.#residuals.digest(arraysOf(this.#trees).length);
  }
}
