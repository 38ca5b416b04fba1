// DistributedOptimizer: an optimizer of TensorFlow.js that reduces gradients over the ranks before it applies them. It is the
// given optimizer with some methods replaced (steppers/): class name, configuration, state and the user's references stay the
// same, so a saved model loads without Horovod.

import * as tf from '@tensorflow/tfjs';
import { invalid } from '../../../operations/check-options.ts';
import { Adasum } from '../../../tensor/reduce-op.ts';
import type { DivergenceGuard } from '../../divergence/divergence-guard.ts';
import { checkOptimizer } from '../accumulators.ts';
import { type AnyVariable, type LocalLayers, LocalVariables } from './local-variables.ts';
import { checkOptimizerOptions, type DistributedOptimizerOptions } from './options.ts';
import { DeltaStepper } from './steppers/delta-stepper.ts';
import { ReducingStepper } from './steppers/reducing-stepper.ts';
import { ShardedStepper } from './steppers/sharded-stepper.ts';
import type { BatchLogs } from './steppers/step-marks.ts';
import type { Stepper, StepperParts } from './steppers/stepper.ts';

/** What a wrapped optimizer has besides its own. */
export interface Distributed {
  /** Its gradient stays on this rank; divided by the number of ranks unless scaleLocalGradients is false. */
  registerLocalVar(variable: AnyVariable): void;
  /** Steps left out because of skipNonFinite. */
  readonly skippedSteps: number;
}

/** Wraps the optimizer given, in place, and returns it. */
export function DistributedOptimizer<T extends tf.Optimizer>(
  optimizer: T,
  options: DistributedOptimizerOptions = {},
): T & Distributed {
  return wrap(optimizer, options, new LocalVariables(), 'DistributedOptimizer');
}

export interface PartialDistributedOptimizerOptions extends DistributedOptimizerOptions {
  /** Layers whose weights each rank trains by itself. */
  localLayers?: LocalLayers | undefined;
}

/** A DistributedOptimizer for models with local layers. */
export function PartialDistributedOptimizer<T extends tf.Optimizer>(
  optimizer: T,
  options: PartialDistributedOptimizerOptions = {},
): T & Distributed {
  const what = 'PartialDistributedOptimizer';
  const { localLayers, ...others } = Object(options) as PartialDistributedOptimizerOptions;
  const locals = new LocalVariables();
  locals.addLayers(localLayers, what);
  return wrap(optimizer, others, locals, what);
}

/** Whether this optimizer reduces its gradients. */
export function isDistributed(optimizer: tf.Optimizer): optimizer is tf.Optimizer & Distributed {
  return steppers.has(optimizer);
}

/** The batch that this optimizer is trained with next; see steppers/step-marks.ts. */
export function expectBatch(optimizer: tf.Optimizer, batch: BatchLogs): void {
  steppers.get(optimizer)?.marks.expect(batch);
}

/** How this optimizer takes its steps; undefined if it is not distributed. */
export function stepperOf(optimizer: tf.Optimizer): Stepper | undefined {
  return steppers.get(optimizer);
}

/** What compares the weights that this optimizer trains. */
export function guardOf(optimizer: tf.Optimizer): DivergenceGuard | undefined {
  return steppers.get(optimizer)?.guard;
}

const steppers = new WeakMap<tf.Optimizer, Stepper>();

function wrap<T extends tf.Optimizer>(
  optimizer: T,
  options: DistributedOptimizerOptions,
  locals: LocalVariables,
  what: string,
): T & Distributed {
  checkOptimizer(optimizer, what);
  if (steppers.has(optimizer)) {
    const name = optimizer.getClassName();
    throw invalid(
      what,
      `this ${name} optimizer is distributed already; its gradients would be reduced twice`,
    );
  }
  const base = Object.getPrototypeOf(optimizer) as tf.Optimizer;
  const stepper = makeStepper({ optimizer, base, rules: checkOptimizerOptions(options, what), locals });
  const overlay: PropertyDescriptorMap = {
    computeGradients: { value: stepper.computeGradients.bind(stepper) },
    applyGradients: { value: stepper.applyGradients.bind(stepper) },
    // Outside of a scope, the gradients of a step that fails would stay: after a reset of an elastic job training goes on.
    minimize: {
      value: (...args: Parameters<tf.Optimizer['minimize']>) =>
        tf.tidy(() => base.minimize.apply(optimizer, args) as tf.Scalar),
    },
    dispose: { value: stepper.dispose.bind(stepper) },
    registerLocalVar: {
      value: (variable: AnyVariable) => locals.add(variable, `${what}.registerLocalVar()`),
    },
    skippedSteps: { get: () => stepper.skippedSteps },
    // Writable: code that saves a model may replace getWeights().
    ...(stepper.getWeights && { getWeights: { value: stepper.getWeights.bind(stepper), writable: true } }),
    ...(stepper.setWeights && { setWeights: { value: stepper.setWeights.bind(stepper), writable: true } }),
  };
  Object.setPrototypeOf(optimizer, Object.create(base, overlay));
  steppers.set(optimizer, stepper);
  return optimizer as T & Distributed;
}

function makeStepper(parts: StepperParts): Stepper {
  const { op, shardOptimizerState } = parts.rules;
  if (op === Adasum) return new DeltaStepper(parts);
  return shardOptimizerState === false ? new ReducingStepper(parts) : new ShardedStepper(parts);
}
