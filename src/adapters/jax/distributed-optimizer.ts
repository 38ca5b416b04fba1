// DistributedOptimizer() for optimizers in optax's shape, and valueAndGrad() with reduced gradients: the two places
// where gradients of all ranks become one. Which of them a script uses is a matter of taste; both would reduce twice.

import * as jax from '@jax-js/jax';
import { defaultContext, globalProcessSet } from '../../context/default/default-context.ts';
import { size } from '../../context/default/default-membership.ts';
import { HorovodError } from '../../errors.ts';
import { ProcessSet } from '../../operations/process-set.ts';
import {
  type AnyCompressor,
  Compression,
  type CompressionName,
  compressorOf,
} from '../../tensor/compression/compression.ts';
import { isReducing } from '../../tensor/compression/compressor.ts';
import { Adasum, Average, type ReduceOp, Sum } from '../../tensor/reduce-op.ts';
import { describe } from '../../tensor/tensor.ts';
import { allreduceTree, allreduceTreeSync } from './collectives.ts';
import { gradientName } from './gradient-names.ts';
import { combined, type GradientTransformation, scaled, zerosLike } from './optimizers.ts';
import { shardedOptimizer } from './sharded-optimizer.ts';

/** How gradients of several ranks become one. */
export interface GradientOptions {
  /** Default: Average. With Adasum the optimizer's updates are combined, not the gradients. */
  readonly op?: ReduceOp | undefined;
  /** One of Compression, its name, or one of your own. Default: none. */
  readonly compression?: AnyCompressor | CompressionName | undefined;
  /** Divides before the sum and multiplies after it, against overflow in half precision; Average only. Default: 1. */
  readonly gradientPredivideFactor?: number | undefined;
  /** Ranks outside of it keep their own gradients. Default: all ranks. */
  readonly processSet?: ProcessSet | undefined;
}

export interface DistributedOptimizerOptions extends GradientOptions {
  /** Gradients of so many calls are added up before they are reduced and applied. Default: 1. */
  readonly backwardPassesPerStep?: number | undefined;
  /** Divides them by their number. Default: false. */
  readonly averageAggregatedGradients?: boolean | undefined;
  /**
   * Each rank keeps and updates only its share of the optimizer's state (ZeRO-1), as one flat array. For optimizers that treat
   * each element by itself, as sgd() and adam() do, over trees of float32 arrays. Default: false.
   */
  readonly shardOptimizerState?: boolean | undefined;
}

/** State of a distributed optimizer that aggregates; with one pass per step it is the inner optimizer's own. */
export interface AggregationState<State> {
  readonly inner: State;
  readonly sum: jax.JsTree<jax.Array>;
  /** Calls since the last step. */
  readonly passes: number;
}

export interface DistributedTransformation<Params, State> extends GradientTransformation<Params, State> {
  /** update() without blocking the thread while other ranks are awaited. */
  updateAsync(grads: Params, state: State, params?: Params): Promise<[updates: Params, state: State]>;
  /**
   * The optimizer's state in one piece, the same on every rank, for checkpoints; itself unless it is sharded. Collective;
   * uses up the state.
   */
  gatherState(state: State): State;
  /** What this rank needs of what gatherState() gave, with any number of ranks. Uses it up. */
  shardState(state: State): State;
}

const distributed: unique symbol = Symbol.for('horovod.jax.distributed');

/**
 * The optimizer with gradients reduced over all ranks before it sees them. Ownership is optax's: init() and update()
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
  checkOptions(options, optimizerOptionNames, 'DistributedOptimizer');
  const { backwardPassesPerStep: passesPerStep = 1, averageAggregatedGradients = false } = options;
  checkPasses(passesPerStep);
  const scales = checkScales(options);
  if (options.op === Adasum && averageAggregatedGradients) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      'DistributedOptimizer: averageAggregatedGradients does not go with Adasum, which finds its own scale.',
    );
  }
  const shares = checkSharding(options);
  const whole = marking(
    shares ? whereShared(optimizer, options, scales) : reducing(optimizer, options, scales),
  );
  const factor = averageAggregatedGradients ? 1 / passesPerStep : 1;
  const made = passesPerStep === 1 ? whole : aggregating(whole, passesPerStep, factor);
  return Object.assign(made, { [distributed]: true });
}

/** Every rank has all of the state. */
function reducing<Params, State>(
  optimizer: GradientTransformation<Params, State>,
  options: GradientOptions,
  scales: Scales,
): DistributedTransformation<Params, State> {
  if (options.op === Adasum) return combiningUpdates(optimizer, options, scales);
  return {
    init: (params) => optimizer.init(params),
    update: (grads, state, params) => optimizer.update(reduceSync(grads, options, scales), state, params),
    updateAsync: async (grads, state, params) =>
      optimizer.update(await reduce(grads, options, scales), state, params),
    gatherState: (state) => state,
    shardState: (state) => state,
  };
}

/** Adasum, as Horovod does it: each rank's optimizer sees its own gradients, and what it would change is combined. */
function combiningUpdates<Params, State>(
  optimizer: GradientTransformation<Params, State>,
  options: GradientOptions,
  scales: Scales,
): DistributedTransformation<Params, State> {
  return {
    init: (params) => optimizer.init(params),
    update(grads, state, params) {
      const [updates, next] = optimizer.update(grads, state, params);
      return [reduceSync(updates, options, scales), next];
    },
    async updateAsync(grads, state, params) {
      const [updates, next] = optimizer.update(grads, state, params);
      return [await reduce(updates, options, scales), next];
    },
    gatherState: (state) => state,
    shardState: (state) => state,
  };
}

/** Sharded where there are others to share with, which is known after init() of the package only. */
function whereShared<Params, State>(
  optimizer: GradientTransformation<Params, State>,
  options: GradientOptions,
  scales: Scales,
): DistributedTransformation<Params, State> {
  const { op, compression, processSet } = options;
  const alone = reducing(optimizer, options, scales);
  const shared = shardedOptimizer(optimizer, { op, compression, processSet, ...scales });
  const it = () => (isAlone(options) ? alone : shared);
  return {
    init: (params) => it().init(params),
    update: (grads, state, params) => it().update(grads, state, params),
    updateAsync: (grads, state, params) => it().updateAsync(grads, state, params),
    gatherState: (state) => it().gatherState(state),
    shardState: (state) => it().shardState(state),
  };
}

/** Each update() is a training step. */
function marking<Params, State>(
  step: DistributedTransformation<Params, State>,
): DistributedTransformation<Params, State> {
  return {
    ...step,
    update(grads, state, params) {
      const result = step.update(grads, state, params);
      markStep();
      return result;
    },
    async updateAsync(grads, state, params) {
      const result = await step.updateAsync(grads, state, params);
      markStep();
      return result;
    },
  };
}

function markStep(): void {
  defaultContext().steps.report();
}

/** jax.valueAndGrad() options, and how the gradients are reduced. */
export interface ValueAndGradOptions<
  Argnums extends undefined | number | number[] = undefined,
  HasAux extends boolean = false,
> extends GradientOptions {
  readonly argnums?: Argnums;
  readonly hasAux?: HasAux;
}

// biome-ignore lint/suspicious/noExplicitAny: jax-js has its functions like this, and its inference needs the same
type Differentiable = (...args: any[]) => jax.JsTree<jax.Array>;
type Differentiated<
  F extends Differentiable,
  Argnums extends undefined | number | number[],
  HasAux extends boolean,
> = ReturnType<typeof jax.valueAndGrad<F, Argnums, HasAux>>;

/**
 * jax.valueAndGrad() with the gradients reduced over all ranks; the value is this rank's own. The arguments are used
 * up, as by jax.valueAndGrad(). `fn` may be jitted.
 */
export function valueAndGrad<
  F extends Differentiable,
  const Argnums extends undefined | number | number[] = undefined,
  const HasAux extends boolean = false,
>(
  fn: F,
  options: ValueAndGradOptions<Argnums, HasAux> = {},
): (
  ...args: Parameters<Differentiated<F, Argnums, HasAux>>
) => Promise<ReturnType<Differentiated<F, Argnums, HasAux>>> {
  const [differentiated, scales] = differentiate(fn, options);
  return async (...args) => {
    const [value, grads] = differentiated(...args);
    const reduced = await reduce(grads, options, scales);
    markStep();
    return [value, reduced] as ReturnType<Differentiated<F, Argnums, HasAux>>;
  };
}

/** The blocking form of valueAndGrad(). */
export function valueAndGradSync<
  F extends Differentiable,
  const Argnums extends undefined | number | number[] = undefined,
  const HasAux extends boolean = false,
>(fn: F, options: ValueAndGradOptions<Argnums, HasAux> = {}): Differentiated<F, Argnums, HasAux> {
  const [differentiated, scales] = differentiate(fn, options);
  const run = (...args: Parameters<Differentiated<F, Argnums, HasAux>>) => {
    const [value, grads] = differentiated(...args);
    const reduced = reduceSync(grads, options, scales);
    markStep();
    return [value, reduced];
  };
  return run as Differentiated<F, Argnums, HasAux>;
}

function differentiate<
  F extends Differentiable,
  Argnums extends undefined | number | number[],
  HasAux extends boolean,
>(
  fn: F,
  options: ValueAndGradOptions<Argnums, HasAux>,
): readonly [Differentiated<F, Argnums, HasAux>, Scales] {
  checkOptions(options, differentiationOptionNames, 'valueAndGrad');
  const { argnums, hasAux } = options;
  const scales = checkScales(options);
  const differentiated = jax.valueAndGrad<F, Argnums, HasAux>(fn, {
    ...(argnums === undefined ? {} : { argnums }),
    ...(hasAux === undefined ? {} : { hasAux }),
  });
  return [differentiated as Differentiated<F, Argnums, HasAux>, scales];
}

interface Scales {
  readonly prescaleFactor: number;
  readonly postscaleFactor: number;
}

async function reduce<T>(grads: T, options: GradientOptions, scales: Scales): Promise<T> {
  if (isAlone(options)) return grads;
  const { op, compression, processSet } = options;
  const name = gradientName(scales, options);
  return allreduceTree(grads, { op, compression, processSet, name, ...scales });
}

function reduceSync<T>(grads: T, options: GradientOptions, scales: Scales): T {
  if (isAlone(options)) return grads;
  const { op, compression, processSet } = options;
  const name = gradientName(scales, options);
  return allreduceTreeSync(grads, { op, compression, processSet, name, ...scales });
}

/** Nobody to reduce with: this rank is outside of the set, or its only member. */
function isAlone({ processSet = globalProcessSet }: GradientOptions): boolean {
  size(); // throws before init()
  return processSet.included() === false || processSet.size() === 1;
}

function aggregating<Params, State>(
  step: DistributedTransformation<Params, State>,
  passesPerStep: number,
  factor: number,
): DistributedTransformation<Params, AggregationState<State>> {
  const add = (grads: Params, sum: unknown) => combined((a, b) => a.add(b), sum, grads) as Params;
  const fresh = (grads: Params) => zerosLike(jax.tree.ref(grads as jax.JsTree<jax.Array>));
  const wait = (
    sum: Params,
    { inner, passes }: AggregationState<State>,
    params?: Params,
  ): [Params, AggregationState<State>] => {
    jax.tree.dispose(params as jax.JsTree<jax.Array>);
    const nothing = fresh(sum) as Params;
    return [nothing, { inner, sum: sum as jax.JsTree<jax.Array>, passes: passes + 1 }];
  };
  const next = (
    [updates, inner]: [Params, State],
    zeros: jax.JsTree<jax.Array>,
  ): [Params, AggregationState<State>] => [updates, { inner, sum: zeros, passes: 0 }];
  return {
    init(params) {
      const sum = fresh(params);
      return { inner: step.init(params), sum, passes: 0 };
    },
    update(grads, state, params) {
      const sum = add(grads, state.sum);
      if (state.passes + 1 < passesPerStep) return wait(sum, state, params);
      const zeros = fresh(sum);
      return next(step.update(scaled(sum, factor), state.inner, params), zeros);
    },
    async updateAsync(grads, state, params) {
      const sum = add(grads, state.sum);
      if (state.passes + 1 < passesPerStep) return wait(sum, state, params);
      const zeros = fresh(sum);
      return next(await step.updateAsync(scaled(sum, factor), state.inner, params), zeros);
    },
    gatherState: (state) => ({ ...state, inner: step.gatherState(state.inner) }),
    shardState: (state) => ({ ...state, inner: step.shardState(state.inner) }),
  };
}

function checkOptimizer(optimizer: unknown): void {
  const { init, update } = (optimizer ?? {}) as Partial<GradientTransformation>;
  const isOne = typeof init === 'function' && typeof update === 'function';
  if (!isOne) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `DistributedOptimizer takes an optimizer { init(params), update(grads, state, params) }, not ${describe(optimizer)}.`,
    );
  }
  if (distributed in (optimizer as object)) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      'DistributedOptimizer: this optimizer is distributed already; gradients would be reduced twice.',
    );
  }
}

const gradientOptionNames = ['op', 'compression', 'gradientPredivideFactor', 'processSet'];
const optimizerOptionNames = [
  ...gradientOptionNames,
  'backwardPassesPerStep',
  'averageAggregatedGradients',
  'shardOptimizerState',
];
const differentiationOptionNames = [...gradientOptionNames, 'argnums', 'hasAux'];

/** What would otherwise be found in the first step, or never. */
function checkOptions(options: GradientOptions, names: readonly string[], what: string): void {
  const refuse = (reason: string): never => {
    throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', `${what}: ${reason}.`);
  };
  if (typeof options !== 'object' || options === null)
    refuse(`options are an object, not ${describe(options)}`);
  const unknown = Object.keys(options).find((key) => !names.includes(key));
  if (unknown !== undefined) refuse(`there is no option ${unknown}; there are ${names.join(', ')}`);
  const { op = Average, compression, processSet } = options;
  if (![Average, Sum, Adasum].includes(op)) {
    refuse('op is Average, Sum or Adasum: gradients have no other meaning than their sum');
  }
  const compressor = compressorOf(compression, what);
  if (op === Adasum && isReducing(compressor))
    refuse(`compression ${compressor.name} goes with op Average and Sum, not with Adasum`);
  if (processSet !== undefined && !(processSet instanceof ProcessSet))
    refuse(`processSet is a ProcessSet, not ${describe(processSet)}`);
}

function checkSharding({
  shardOptimizerState = false,
  op = Average,
  compression: given,
}: DistributedOptimizerOptions): boolean {
  const compression = compressorOf(given, 'DistributedOptimizer');
  const refuse = (reason: string): never => {
    throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', `DistributedOptimizer: ${reason}.`);
  };
  if (typeof shardOptimizerState !== 'boolean')
    refuse(`shardOptimizerState is true or false, not ${describe(shardOptimizerState)}`);
  if (!shardOptimizerState) return false;
  if (op !== Average && op !== Sum)
    refuse(`shardOptimizerState goes with op Average and Sum, not with ${op.name}`);
  if (![Compression.none, Compression.fp16, Compression.bf16].includes(compression as never))
    refuse(`shardOptimizerState goes with Compression.none, fp16 and bf16, not with ${compression.name}`);
  return true;
}

function checkPasses(passesPerStep: number): void {
  if (Number.isSafeInteger(passesPerStep) && passesPerStep > 0) return;
  throw new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `DistributedOptimizer: backwardPassesPerStep is a whole number from 1, not ${describe(passesPerStep)}.`,
  );
}

function checkScales(options: GradientOptions): Scales {
  const { op = Average, gradientPredivideFactor: factor = 1 } = options;
  if (!(Number.isFinite(factor) && factor > 0)) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `gradientPredivideFactor is a number above 0, not ${describe(factor)}.`,
    );
  }
  if (factor !== 1 && op !== Average) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `gradientPredivideFactor goes with Average only, not with ${op.name}.`,
    );
  }
  return { prescaleFactor: 1 / factor, postscaleFactor: factor };
}
