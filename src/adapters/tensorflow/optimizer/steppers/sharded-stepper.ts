// The distributed optimizer with shardOptimizerState. computeGradients() returns this rank's gradients; applyGradients()
// reduces them, updates and exchanges weights (sharded/step.ts). Loading and saving see the full state: getWeights() gathers
// it, setWeights() takes it, and the next step cuts it again.

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../../../errors.ts';
import { groupSize } from '../../../context.ts';
import { accumulatorsOf } from '../../accumulators.ts';
import { entriesOf, Loss, type NamedGradients } from '../gradients.ts';
import type { OptimizerRules } from '../options.ts';
import { Shards } from '../sharded/mirror.ts';
import { forgetSharding, gatherState, shardingOf } from '../sharded/state.ts';
import { type GivenGradients, ShardedStep } from '../sharded/step.ts';
import { BaseStepper, type Computed, type StepperParts, type Weights } from './stepper.ts';

export class ShardedStepper extends BaseStepper {
  readonly shards: Shards;
  readonly #step: ShardedStep;

  constructor(parts: StepperParts) {
    super(parts);
    checkElementWise(parts.optimizer, parts.rules);
    this.shards = new Shards(parts.optimizer, parts.rules);
    this.#step = new ShardedStep(parts.optimizer, parts.base, parts.rules);
  }

  /** This rank's gradients: no rank has the reduced ones of all variables. */
  computeGradients(f: () => tf.Scalar, varList?: tf.Variable[]): Computed {
    return this.compute(new Loss(f, this.rules.what), varList);
  }

  applyGradients(named: NamedGradients): void {
    this.timer?.skip();
    const { variables, isListed } = this.meant(named);
    const byName = new Map(entriesOf(named).map(({ name, tensor }) => [name, tensor ?? undefined]));
    const gradients = variables.map(({ name }) => byName.get(name));
    const { aggregation } = this;
    // Clones share the memory, and the sums are kept.
    aggregation?.add(
      variables,
      gradients.map((gradient) => gradient?.clone()),
    );
    const isStep = aggregation?.isComplete !== false;
    const sums = isStep ? aggregation?.take(variables) : undefined;
    try {
      if (isStep) this.#apply({ variables, gradients: sums ?? gradients, isListed });
      else this.countIteration();
    } finally {
      tf.dispose(sums?.filter((sum) => sum !== undefined) ?? []);
    }
    this.timer?.end('updateMs');
    this.end(isStep);
  }

  /** With the full state of all ranks: collective where it is sharded. The tensors of sharded variables belong to the caller. */
  async getWeights(): Promise<Weights> {
    const { optimizer } = this;
    const sharding = shardingOf(optimizer);
    if (sharding === undefined) return this.base.getWeights.call(optimizer);
    const fields = Object.entries(gatherState(optimizer, sharding)).map(([field, value]) => [
      field,
      { value },
    ]);
    const full = Object.create(optimizer, Object.fromEntries(fields)) as tf.Optimizer;
    return this.base.getWeights.call(full);
  }

  /** Takes the full state, on every rank; the next step cuts it. The state before is disposed. */
  async setWeights(weights: Weights): Promise<void> {
    const entries = () => accumulatorsOf(this.optimizer).flatMap(([, list]) => list);
    const old = entries();
    await this.base.setWeights.call(this.optimizer, weights);
    const kept = new Set(entries());
    for (const entry of old) if (entry != null && !kept.has(entry)) entry.variable.dispose();
    forgetSharding(this.optimizer);
  }

  override get isSharded(): boolean {
    return true;
  }

  override dispose(): void {
    forgetSharding(this.optimizer);
    super.dispose();
  }

  #apply(given: GivenGradients): void {
    const locals = this.locals.current();
    if (groupSize(this.rules) > 1) {
      if (!this.#step.run(given, locals, this.timer)) this.skippedSteps++;
      this.shards.reductions++;
      return;
    }
    const entries = given.variables.map(({ name }, place) => ({
      name,
      tensor: (given.gradients[place] ?? null) as tf.Tensor,
    }));
    const used = given.isListed ? entries : entries.filter(({ tensor }) => tensor !== null);
    this.update(used, locals);
    const isUsed = new Set(used);
    this.shards.trainedAlone(
      given.variables.filter((_, place) => isUsed.has(entries[place] as (typeof entries)[number])),
      locals,
    );
  }
}

/** The optimizers whose updates are known to treat each element separately. */
const elementWise: readonly (new (...args: never[]) => tf.Optimizer)[] = [
  tf.SGDOptimizer,
  tf.MomentumOptimizer,
  tf.AdagradOptimizer,
  tf.AdadeltaOptimizer,
  tf.AdamOptimizer,
  tf.AdamaxOptimizer,
  tf.RMSPropOptimizer,
];

/** An update that looks at a whole tensor (LARS, a clipped norm …) would give another result on a part of it. */
function checkElementWise(optimizer: tf.Optimizer, { what, shardOptimizerState }: OptimizerRules): void {
  if (shardOptimizerState === 'element-wise') return;
  if (elementWise.some(({ prototype }) => prototype.applyGradients === optimizer.applyGradients)) return;
  throw new HorovodError(
    'ERR_HVD_UNSUPPORTED',
    `${what}: shardOptimizerState cuts variables anywhere, and it is not known whether ${optimizer.getClassName()} updates each ` +
      "element separately, as the optimizers of tf.train do. If it does, use shardOptimizerState: 'element-wise'; if it looks at " +
      'whole tensors (norms, factored moments), its state cannot be sharded.',
  );
}
