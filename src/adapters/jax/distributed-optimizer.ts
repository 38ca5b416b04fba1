// DistributedOptimizer() for optimizers in optax's shape. Use it or valueAndGrad() of this package: with both, gradients would
// be reduced twice.

import * as jax from '@jax-js/jax';
import { checkNames, invalid, readFlag } from '../../operations/check-options.ts';
import { isReducing } from '../../tensor/compression/compressor.ts';
import { Adasum } from '../../tensor/reduce-op.ts';
import { describe } from '../../tensor/tensor.ts';
import { type BothForms, run, runSync, wait } from '../both-forms.ts';
import { currentContext, groupSize, isElasticJob } from '../context.ts';
import {
  type Aggregation,
  type AggregationOptions,
  aggregationOptionNames,
  checkAggregation,
  checkReduction,
  checkShardable,
  type Reduction,
  type ReductionOptions,
  reductionOptionNames,
} from '../gradient-options.ts';
import { ReducerName } from '../reducer-name.ts';
import { allreduceTree, allreduceTreeSync } from './collectives.ts';
import { parameterGuard } from './guarded-tree.ts';
import { combined, type GradientTransformation, scaled, zerosLike } from './optimizers.ts';
import { shardedOptimizer } from './sharded-optimizer.ts';
import { TreeResiduals } from './tree-residuals.ts';
import { TreeShards } from './tree-shards.ts';

/** How gradients of several ranks become one. */
export type GradientOptions = ReductionOptions;

export interface DistributedOptimizerOptions extends GradientOptions, AggregationOptions {
  /**
   * Each rank keeps and updates only its share of the optimizer's state (ZeRO-1), as one flat array. For optimizers that update
   * each element separately, as sgd() and adam() do, over trees of float32 arrays. Default: false.
   */
  shardOptimizerState?: boolean | undefined;
}

/** State of a distributed optimizer that aggregates; with one pass per step it is the inner optimizer's state. */
export interface AggregationState<State> {
  readonly inner: State;
  readonly sum: jax.JsTree<jax.Array>;
  /** Calls since the last step. */
  readonly passes: number;
}

export interface DistributedTransformation<Params, State> extends GradientTransformation<Params, State> {
  /** update() without blocking the thread while it waits for other ranks. */
  updateAsync(grads: Params, state: State, params?: Params): Promise<[updates: Params, state: State]>;
  /**
   * The optimizer's state in one piece, the same on every rank, for checkpoints. If the state is not sharded, it is returned
   * as it is. Collective; uses up the state.
   */
  gatherState(state: State): State;
  /** This rank's share of what gatherState() returned, on any number of ranks. Uses it up. */
  shardState(state: State): State;
}

/** A DistributedTransformation with both forms of update() in one. */
export interface DistributedSteps<Params, State> {
  init(params: Params): State;
  step(grads: Params, state: State, params?: Params): BothForms<[updates: Params, state: State]>;
  gatherState(state: State): State;
  shardState(state: State): State;
}

const distributed: unique symbol = Symbol.for('horovod.jax.distributed');
const kept: unique symbol = Symbol('residuals');
const sharded: unique symbol = Symbol('shards');
const optionNames = [...reductionOptionNames, ...aggregationOptionNames, 'shardOptimizerState'];
const what = 'DistributedOptimizer';

/**
 * The optimizer with gradients reduced over all ranks before it sees them. Ownership is as in optax: init() and update()
 * use up what they are given. update() is collective: every rank calls it equally often. Not for use inside jit().
 */
export function DistributedOptimizer<Params, State>(
  optimizer: GradientTransformation<Params, State>,
  options?: DistributedOptimizerOptions & { readonly backwardPassesPerStep?: 1 | undefined },
): DistributedTransformation<Params, State>;
export function DistributedOptimizer<Params, State>(
  optimizer: GradientTransformation<Params, State>,
  options: DistributedOptimizerOptions,
): DistributedTransformation<Params, AggregationState<State>>;
export function DistributedOptimizer<Params, State>(
  optimizer: GradientTransformation<Params, State>,
  options: DistributedOptimizerOptions = {},
): DistributedTransformation<Params, State> | DistributedTransformation<Params, AggregationState<State>> {
  checkOptimizer(optimizer);
  checkNames(options, optionNames, what);
  const reduction = checkReduction(options, what);
  const aggregation = checkAggregation(options, reduction);
  const isSharded = readFlag(options, 'shardOptimizerState', false, what);
  if (isSharded) checkShardable(reduction);
  const residuals = TreeResiduals.of(reduction);
  const shards = isSharded ? new TreeShards(reduction) : undefined;
  const steps = marking(
    shards ? whereShared(optimizer, reduction, shards) : reducing(optimizer, reduction, residuals),
    parameterGuard(reduction),
  );
  const made =
    aggregation.backwardPassesPerStep === 1 ? bothForms(steps) : bothForms(aggregating(steps, aggregation));
  keepResiduals(made, residuals);
  Object.defineProperty(made, sharded, { value: shards });
  return made as DistributedTransformation<Params, State>;
}

/** What a lossy compressor keeps for an optimizer or a gradient function; undefined where nothing is kept. */
export function treeResidualsOf(owner: object): TreeResiduals | undefined {
  return (owner as { [kept]?: TreeResiduals })[kept];
}

/** Which arrays of its state are shards; undefined where every rank has all of it. */
export function treeShardsOf(owner: object): TreeShards | undefined {
  return (owner as { [sharded]?: TreeShards })[sharded];
}

/** `owner` is an object that this package has made. */
export function keepResiduals(owner: object, residuals: TreeResiduals | undefined): void {
  Object.defineProperty(owner, kept, { value: residuals });
}

/** Reduces trees of gradients; made once for each optimizer. */
export function treeReducer(
  reduction: Reduction,
  residuals: TreeResiduals | undefined,
): <T>(tree: T) => BothForms<T> {
  const { op, compression, prescaleFactor, postscaleFactor, processSet } = reduction;
  const reducerName = new ReducerName('jax.gradients', reduction);
  return function* reduce(tree) {
    if (groupSize(reduction) === 1) return tree;
    const context = currentContext();
    // A compressor that keeps something must know which gradients it has seen before. Others need no name.
    const name = isReducing(compression) ? reducerName.in(context) : undefined;
    const reduceOptions = {
      op,
      compression,
      prescaleFactor,
      postscaleFactor,
      processSet,
      name,
      ...residuals?.optionsFor(context, tree),
    };
    return yield* wait(
      () => allreduceTreeSync(tree, reduceOptions),
      () => allreduceTree(tree, reduceOptions),
    );
  };
}

function bothForms<Params, State>(
  steps: DistributedSteps<Params, State>,
): DistributedTransformation<Params, State> {
  const { step, ...others } = steps;
  const forms = {
    ...others,
    update: (grads: Params, state: State, params?: Params) => runSync(step(grads, state, params)),
    updateAsync: (grads: Params, state: State, params?: Params) => run(step(grads, state, params)),
  };
  return Object.assign(forms, { [distributed]: true });
}

/** Every rank has all of the state. */
function reducing<Params, State>(
  optimizer: GradientTransformation<Params, State>,
  reduction: Reduction,
  residuals?: TreeResiduals,
): DistributedSteps<Params, State> {
  const reduce = treeReducer(reduction, residuals);
  return {
    init: (params) => optimizer.init(params),
    *step(grads, state, params) {
      if (reduction.op !== Adasum) return optimizer.update(yield* reduce(grads), state, params);
      // As Horovod for Python does it: the optimizer sees this rank's gradients, and its updates are combined.
      const [updates, next] = optimizer.update(grads, state, params);
      return [yield* reduce(updates), next];
    },
    gatherState: (state) => state,
    shardState: (state) => state,
  };
}

/** Sharded if there are other ranks, which is known only after init() of the package, or may come: in an elastic job. */
function whereShared<Params, State>(
  optimizer: GradientTransformation<Params, State>,
  reduction: Reduction,
  shards: TreeShards,
): DistributedSteps<Params, State> {
  const alone = reducing(optimizer, reduction);
  const shared = shardedOptimizer(optimizer, reduction, shards);
  const current = () => (!isElasticJob() && groupSize(reduction) === 1 ? alone : shared);
  return {
    init: (params) => current().init(params),
    step: (grads, state, params) => current().step(grads, state, params),
    gatherState: (state) => current().gatherState(state),
    shardState: (state) => current().shardState(state),
  };
}

/** Each update() is a training step. */
function marking<Params, State>(
  steps: DistributedSteps<Params, State>,
  check: (params: unknown) => BothForms<void>,
): DistributedSteps<Params, State> {
  return {
    ...steps,
    *step(grads, state, params) {
      yield* check(params);
      currentContext().steps.begin();
      const result = yield* steps.step(grads, state, params);
      currentContext().reportStep();
      return result;
    },
  };
}

function aggregating<Params, State>(
  steps: DistributedSteps<Params, State>,
  { backwardPassesPerStep, averageAggregatedGradients }: Aggregation,
): DistributedSteps<Params, AggregationState<State>> {
  const factor = averageAggregatedGradients ? 1 / backwardPassesPerStep : 1;
  const zerosFor = (grads: unknown) => zerosLike(jax.tree.ref(grads as jax.JsTree<jax.Array>));
  return {
    init(params) {
      const sum = zerosFor(params);
      return { inner: steps.init(params), sum, passes: 0 };
    },
    *step(grads, state, params) {
      const sum = combined((a, b) => a.add(b), state.sum, grads);
      const zeros = zerosFor(sum);
      if (state.passes + 1 < backwardPassesPerStep) {
        jax.tree.dispose(params as jax.JsTree<jax.Array>);
        return [zeros as Params, { inner: state.inner, sum, passes: state.passes + 1 }];
      }
      const [updates, inner] = yield* steps.step(scaled(sum as Params, factor), state.inner, params);
      return [updates, { inner, sum: zeros, passes: 0 }];
    },
    gatherState: (state) => ({ ...state, inner: steps.gatherState(state.inner) }),
    shardState: (state) => ({ ...state, inner: steps.shardState(state.inner) }),
  };
}

function checkOptimizer(optimizer: unknown): void {
  const { init, update } = (optimizer ?? {}) as Partial<GradientTransformation>;
  if (typeof init !== 'function' || typeof update !== 'function') {
    const given = describe(optimizer);
    throw invalid(what, `expected an optimizer { init(params), update(grads, state, params) }, not ${given}`);
  }
  if (distributed in (optimizer as object)) {
    throw invalid(what, 'this optimizer is distributed already; gradients would be reduced twice');
  }
}
