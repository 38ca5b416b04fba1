// What a DistributedOptimizer with shardOptimizerState has in place of the optimizer's methods. Gradients stay this rank's own
// until applyGradients(), where the ranks reduce them, update and exchange weights (step.ts). Loading and saving see the
// full state: getWeights() gathers it, setWeights() takes it, and the next step cuts it again.

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../../../errors.ts';
import { accumulatorsOf } from '../../accumulators.ts';
import { readTensor } from '../../tensor-access.ts';
import { Aggregation } from '../aggregation.ts';
import { GradientReducer, type Gradients } from '../gradient-reducer.ts';
import { type LocalVariables, trainableVariables } from '../local-variables.ts';
import { areOf, entriesOf, type NamedGradients, variablesOf } from '../named-gradients.ts';
import { checkRegistered, type OptimizerRules } from '../options.ts';
import { Loss } from '../own-gradients.ts';
import { StepMarks } from '../step-marks.ts';
import { type StepTimer, timeStep } from '../step-times.ts';
import { forgetSharding, gatherState, shardingOf } from './state.ts';
import { ShardedStep } from './step.ts';

type Weights = Awaited<ReturnType<tf.Optimizer['getWeights']>>;

/** What applyGradients() was given, in order of the variables that are meant. */
interface Given {
  readonly variables: readonly tf.Variable[];
  /** The caller's. */
  readonly gradients: Gradients;
  readonly isListed: boolean;
}

export class ShardedStepper {
  skippedSteps = 0;
  readonly marks: StepMarks = new StepMarks();
  readonly #optimizer: tf.Optimizer;
  readonly #base: tf.Optimizer;
  readonly #rules: OptimizerRules;
  readonly #locals: LocalVariables;
  readonly #step: ShardedStep;
  readonly #reducer: GradientReducer;
  readonly #aggregation: Aggregation | undefined;
  /** Of the last computeGradients(): the gradients that come back may be fewer. */
  #computed: { readonly variables: readonly tf.Variable[]; readonly isListed: boolean } | undefined;
  #timer: StepTimer | undefined;

  constructor(optimizer: tf.Optimizer, base: tf.Optimizer, rules: OptimizerRules, locals: LocalVariables) {
    this.#optimizer = optimizer;
    this.#base = base;
    this.#rules = rules;
    this.#locals = locals;
    this.#step = new ShardedStep(optimizer, base, rules);
    this.#reducer = new GradientReducer(rules, false);
    const { backwardPassesPerStep, averageAggregatedGradients } = rules;
    if (backwardPassesPerStep > 1) {
      this.#aggregation = new Aggregation(backwardPassesPerStep, averageAggregatedGradients);
    }
  }

  /** This rank's own gradients: nobody has the reduced ones of all variables. */
  computeGradients(
    f: () => tf.Scalar,
    varList?: tf.Variable[],
  ): { value: tf.Scalar; grads: tf.NamedTensorMap } {
    this.#computed = undefined; // whatever becomes of this pass
    const loss = new Loss(f, this.#rules.what);
    this.#timer = timeStep();
    const timed = () => {
      const value = loss.compute();
      this.#timer?.end('forwardMs');
      return value;
    };
    const variables = varList ?? trainableVariables();
    const found = this.#base.computeGradients.call(this.#optimizer, timed, varList);
    this.#timer?.end('backwardMs');
    this.#computed = { variables, isListed: varList !== undefined };
    return found;
  }

  applyGradients(named: NamedGradients): void {
    this.#timer?.skip();
    const given = this.#given(named);
    this.#computed = undefined;
    const aggregation = this.#aggregation;
    if (aggregation === undefined) {
      this.#apply(given);
    } else {
      // Clones share the memory, and the sums are kept.
      aggregation.add(
        given.variables,
        given.gradients.map((gradient) => gradient?.clone()),
      );
      if (!aggregation.isComplete) {
        // As Horovod does: passes count, steps or not.
        (this.#optimizer as unknown as { incrementIterations(): void }).incrementIterations();
        this.marks.passEnded();
        return;
      }
      const gradients = aggregation.take(given.variables);
      try {
        this.#apply({ ...given, gradients });
      } finally {
        tf.dispose(gradients.filter((gradient) => gradient !== undefined));
      }
    }
    this.#timer?.end('updateMs');
    this.#timer?.publish();
    this.#timer = undefined;
    this.marks.stepEnded();
  }

  /** With the full state of all ranks: collective where it is sharded. The tensors of sharded variables are the caller's. */
  async getWeights(): Promise<Weights> {
    const sharding = shardingOf(this.#optimizer);
    if (sharding === undefined) return this.#base.getWeights.call(this.#optimizer);
    const fields = gatherState(this.#optimizer, sharding);
    const full = Object.create(
      this.#optimizer,
      Object.fromEntries(Object.entries(fields).map(([field, value]) => [field, { value }])),
    ) as tf.Optimizer;
    return this.#base.getWeights.call(full);
  }

  /** Takes the full state, on every rank; the next step cuts it. What was there is disposed. */
  async setWeights(weights: Weights): Promise<void> {
    const old = accumulatorsOf(this.#optimizer).flatMap(([, list]) => list);
    await this.#base.setWeights.call(this.#optimizer, weights);
    const kept = new Set(accumulatorsOf(this.#optimizer).flatMap(([, list]) => list));
    for (const entry of old) if (entry != null && !kept.has(entry)) entry.variable.dispose();
    forgetSharding(this.#optimizer);
  }

  dispose(): void {
    this.#aggregation?.dispose();
    forgetSharding(this.#optimizer);
    this.#base.dispose.call(this.#optimizer);
  }

  #apply(given: Given): void {
    const size = this.#reducer.groupSize();
    checkRegistered(this.#rules);
    if (size > 1) {
      if (!this.#step.run({ ...given, locals: this.#locals.current(), timer: this.#timer }))
        this.skippedSteps++;
    } else if (this.#rules.skipNonFinite && !given.gradients.every(isFiniteOrNone)) {
      this.skippedSteps++;
    } else {
      const entries = given.variables.map(({ name }, place) => ({
        name,
        tensor: (given.gradients[place] ?? null) as tf.Tensor,
      }));
      const those = given.isListed ? entries : entries.filter(({ tensor }) => tensor !== null);
      this.#base.applyGradients.call(this.#optimizer, those);
    }
  }

  #given(named: NamedGradients): Given {
    const entries = entriesOf(named);
    const byName = new Map(entries.map(({ name, tensor }) => [name, tensor ?? undefined]));
    const computed = this.#computed;
    const { variables, isListed } =
      computed !== undefined && areOf(named, computed.variables)
        ? computed
        : { variables: variablesOf(named, this.#rules.what), isListed: true };
    return { variables, gradients: variables.map(({ name }) => byName.get(name)), isListed };
  }
}

function isFiniteOrNone(gradient: tf.Tensor | undefined): boolean {
  return gradient === undefined || (readTensor(gradient) as Float32Array).every(Number.isFinite);
}

/** The updates that are known to treat each element by itself. */
const elementWise: readonly (new (...args: never[]) => tf.Optimizer)[] = [
  tf.SGDOptimizer,
  tf.MomentumOptimizer,
  tf.AdagradOptimizer,
  tf.AdadeltaOptimizer,
  tf.AdamOptimizer,
  tf.AdamaxOptimizer,
  tf.RMSPropOptimizer,
];

/** An update that looks at a whole tensor (LARS, a clipped norm …) would give something else on a part of it. */
export function checkElementWise(
  optimizer: tf.Optimizer,
  { what, shardOptimizerState }: OptimizerRules,
): void {
  if (shardOptimizerState === 'element-wise') return;
  if (elementWise.some(({ prototype }) => prototype.applyGradients === optimizer.applyGradients)) return;
  throw new HorovodError(
    'ERR_HVD_UNSUPPORTED',
    `${what}: shardOptimizerState cuts variables anywhere, and it is not known whether ${optimizer.getClassName()} treats each element ` +
      "by itself, as those of tf.train do. If it does, say so with shardOptimizerState: 'element-wise'; if it looks at whole " +
      'tensors (norms, factored moments), its state cannot be sharded.',
  );
}
