// DistributedOptimizer: an optimizer of TensorFlow.js that reduces gradients over the ranks before it applies them.
// It is the optimizer given, with two methods overlaid: class name, configuration, state and the user's references
// stay what they were, so a saved model loads without Horovod. tf.layers calls minimize(), which calls
// computeGradients() (reduced here) and applyGradients(); a loop of one's own may call tf.variableGrads() and then
// applyGradients() alone, and is reduced there. With op Adasum it is delta-stepper.ts that does the steps.

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../../errors.ts';
import { Adasum } from '../../../tensor/reduce-op.ts';
import { describe } from '../../../tensor/tensor.ts';
import { readTensor } from '../tensor-access.ts';
import { Aggregation } from './aggregation.ts';
import { DeltaStepper } from './delta-stepper.ts';
import { registerErrorFeedback } from './error-feedback.ts';
import { GradientReducer, type Gradients } from './gradient-reducer.ts';
import { type AnyVariable, LocalVariables, trainableVariables } from './local-variables.ts';
import { entriesOf, type NamedGradients, variablesOf } from './named-gradients.ts';
import {
  checkOptimizerOptions,
  checkRegistered,
  type DistributedOptimizerOptions,
  type OptimizerRules,
} from './options.ts';
import { Loss } from './own-gradients.ts';
import { checkElementWise, ShardedStepper } from './sharded/stepper.ts';
import { type BatchLogs, StepMarks } from './step-marks.ts';
import { type StepTimer, timeStep } from './step-times.ts';

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
  localLayers?: tf.layers.Layer | readonly tf.layers.Layer[] | undefined;
}

/** A DistributedOptimizer for models of which some layers are each rank's own. */
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

/** The batch that this optimizer is trained with next; see step-marks.ts. */
export function expectBatch(optimizer: tf.Optimizer, batch: BatchLogs): void {
  steppers.get(optimizer)?.marks.expect(batch);
}

type AnyStepper = Stepper | DeltaStepper | ShardedStepper;

const steppers = new WeakMap<tf.Optimizer, AnyStepper>();

function wrap<T extends tf.Optimizer>(
  optimizer: T,
  options: DistributedOptimizerOptions,
  locals: LocalVariables,
  what: string,
): T & Distributed {
  // tf's own test of an instance looks at its methods, and stumbles over undefined.
  if (optimizer == null || !(optimizer instanceof tf.Optimizer)) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what}: expected an optimizer of TensorFlow.js (tf.train.adam(…)), not ${describe(optimizer)}.`,
    );
  }
  if (steppers.has(optimizer)) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what}: this ${optimizer.getClassName()} optimizer is distributed already; its gradients would be reduced twice.`,
    );
  }
  const base = Object.getPrototypeOf(optimizer) as tf.Optimizer;
  const rules = checkOptimizerOptions(options, what);
  const stepper = makeStepper(optimizer, base, rules, locals);
  const overlay: PropertyDescriptorMap = {
    computeGradients: { value: stepper.computeGradients.bind(stepper) },
    applyGradients: { value: stepper.applyGradients.bind(stepper) },
    dispose: { value: stepper.dispose.bind(stepper) },
    registerLocalVar: {
      value: (variable: AnyVariable) => locals.add(variable, `${what}.registerLocalVar()`),
    },
    skippedSteps: { get: () => stepper.skippedSteps },
    ...(stepper instanceof ShardedStepper && {
      // Writable: whoever saves a model may put a getWeights() of their own over it.
      getWeights: { value: stepper.getWeights.bind(stepper), writable: true },
      setWeights: { value: stepper.setWeights.bind(stepper), writable: true },
    }),
  };
  Object.setPrototypeOf(optimizer, Object.create(base, overlay));
  steppers.set(optimizer, stepper);
  return optimizer as T & Distributed;
}

function makeStepper(
  optimizer: tf.Optimizer,
  base: tf.Optimizer,
  rules: OptimizerRules,
  locals: LocalVariables,
): AnyStepper {
  if (rules.op === Adasum) return new DeltaStepper(optimizer, base, rules, locals);
  if (rules.shardOptimizerState === false) return new Stepper(optimizer, base, rules, locals);
  checkElementWise(optimizer, rules);
  return new ShardedStepper(optimizer, base, rules, locals);
}

/** What has become of the gradients that applyGradients() will be given. */
type Prepared = 'not yet' | 'reduced' | 'only summed up';

class Stepper {
  skippedSteps = 0;
  readonly marks: StepMarks = new StepMarks();
  readonly #optimizer: tf.Optimizer;
  readonly #base: tf.Optimizer;
  readonly #rules: OptimizerRules;
  readonly #locals: LocalVariables;
  readonly #reducer: GradientReducer;
  readonly #aggregation: Aggregation | undefined;
  #prepared: Prepared = 'not yet';
  #timer: StepTimer | undefined;

  constructor(optimizer: tf.Optimizer, base: tf.Optimizer, rules: OptimizerRules, locals: LocalVariables) {
    this.#optimizer = optimizer;
    this.#base = base;
    this.#rules = rules;
    this.#locals = locals;
    const { backwardPassesPerStep, averageAggregatedGradients } = rules;
    this.#reducer = new GradientReducer(rules, rules.overlap && backwardPassesPerStep === 1);
    registerErrorFeedback(optimizer, this.#reducer.errorFeedback);
    if (backwardPassesPerStep > 1) {
      this.#aggregation = new Aggregation(backwardPassesPerStep, averageAggregatedGradients);
    }
  }

  computeGradients(
    f: () => tf.Scalar,
    varList?: tf.Variable[],
  ): { value: tf.Scalar; grads: tf.NamedTensorMap } {
    this.#prepared = 'not yet'; // whatever becomes of this pass
    const variables = varList ?? trainableVariables();
    const global = this.#global(variables);
    const pass = this.#groupSize() > 1 ? this.#reducer.begin(global) : undefined;
    const loss = new Loss(f, this.#rules.what);
    this.#timer = timeStep();
    const timed = () => {
      const value = (pass?.listening(loss.compute) ?? loss.compute)();
      this.#timer?.end('forwardMs');
      return value;
    };
    const { value, grads } = this.#base.computeGradients.call(this.#optimizer, timed, varList);
    this.#timer?.end('backwardMs');
    const own = loss.ownGradients(variables, grads);
    const list = this.#prepare(variables, own, (gradients) => pass?.finish(gradients) ?? gradients);
    this.#timer?.end('exposedCommunicationMs');
    return { value, grads: namedGradients(variables, list, grads) };
  }

  applyGradients(given: NamedGradients): void {
    let state = this.#prepared;
    this.#prepared = 'not yet';
    this.#timer?.skip();
    const ours: tf.Tensor[] = [];
    let gradients = given;
    if (state === 'not yet') {
      const { named, created, isComplete } = this.#reduceGiven(given);
      gradients = named;
      ours.push(...created);
      state = isComplete ? 'reduced' : 'only summed up';
    }
    if (state === 'only summed up') this.#countIteration();
    else if (this.#rules.skipNonFinite && !this.#areFinite(gradients)) this.skippedSteps++;
    else this.#base.applyGradients.call(this.#optimizer, gradients);
    tf.dispose(ours);
    this.#timer?.end('updateMs');
    this.#timer?.publish();
    this.#timer = undefined;
    if (state === 'only summed up') this.marks.passEnded();
    else this.marks.stepEnded();
  }

  dispose(): void {
    this.#reducer.release();
    this.#aggregation?.dispose();
    this.#base.dispose.call(this.#optimizer);
  }

  /** Sums up, reduces and scales; uses up the gradients. Notes what it has done. */
  #prepare(
    variables: readonly tf.Variable[],
    gradients: Gradients,
    finish: (gradients: Gradients) => Gradients,
  ): Gradients {
    const aggregation = this.#aggregation;
    let complete = gradients;
    if (aggregation !== undefined) {
      aggregation.add(variables, gradients);
      if (!aggregation.isComplete) {
        this.#prepared = 'only summed up';
        return aggregation.peek(variables);
      }
      complete = aggregation.take(variables);
    }
    const size = this.#reducer.groupSize();
    const reduced = size === 1 ? complete : this.#reduce(variables, complete, size, finish);
    this.#prepared = 'reduced';
    return reduced;
  }

  /** The global ones by `finish`; the local ones are scaled. */
  #reduce(
    variables: readonly tf.Variable[],
    complete: Gradients,
    size: number,
    finish: (gradients: Gradients) => Gradients,
  ): Gradients {
    const locals = this.#locals.current();
    const isGlobal = (place: number) => !locals.has(variables[place] as tf.Variable);
    const reduced = finish(complete.filter((_, place) => isGlobal(place)))[Symbol.iterator]();
    return complete.map((gradient, place) => {
      if (isGlobal(place)) return reduced.next().value as tf.Tensor | undefined;
      if (gradient === undefined || !this.#rules.scaleLocalGradients) return gradient;
      const scaled = tf.div(gradient, size);
      gradient.dispose();
      return scaled;
    });
  }

  /** For applyGradients() alone: the gradients are the caller's and stay as they are. */
  #reduceGiven(given: NamedGradients): { named: NamedGradients; created: tf.Tensor[]; isComplete: boolean } {
    const entries = entriesOf(given);
    const variables = variablesOf(given, this.#rules.what);
    // Clones share the memory: nothing is written into it, and the caller's tensors outlive them.
    const clones = entries.map(({ tensor }) => tensor?.clone() ?? undefined);
    const pass = this.#groupSize() > 1 ? this.#reducer.begin(this.#global(variables)) : undefined;
    const list = this.#prepare(variables, clones, (gradients) => {
      if (pass === undefined) return gradients;
      const reduced = pass.finishWithCopies(gradients);
      gradients.forEach((gradient, i) => {
        if (gradient !== reduced[i]) gradient?.dispose();
      });
      return reduced;
    });
    const isComplete = this.#prepared === 'reduced';
    this.#prepared = 'not yet';
    const created = list.filter((tensor): tensor is tf.Tensor => tensor !== undefined);
    // Optimizers keep their state by place in the list: the places stay.
    const named = entries.map(({ name }, place) => ({ name, tensor: list[place] as tf.Tensor }));
    return { named, created, isComplete };
  }

  #groupSize(): number {
    const size = this.#reducer.groupSize();
    checkRegistered(this.#rules);
    return size;
  }

  #global(variables: readonly tf.Variable[]): tf.Variable[] {
    const locals = this.#locals.current();
    return variables.filter((variable) => !locals.has(variable));
  }

  /** As Horovod does: passes count, steps or not. */
  #countIteration(): void {
    (this.#optimizer as unknown as { incrementIterations(): void }).incrementIterations();
  }

  #areFinite(gradients: NamedGradients): boolean {
    const locals = this.#locals.current();
    const { registeredVariables } = tf.engine();
    return entriesOf(gradients).every(({ name, tensor }) => {
      // Local gradients differ between ranks: with them the ranks could decide differently.
      const variable = registeredVariables[name];
      if (tensor == null || (variable !== undefined && locals.has(variable))) return true;
      return (readTensor(tensor) as Float32Array).every(Number.isFinite);
    });
  }
}

/** As tf.variableGrads() gives them: in order of the variables, which is the order of the optimizers' state. */
function namedGradients(
  variables: readonly tf.Variable[],
  gradients: Gradients,
  found: tf.NamedTensorMap,
): tf.NamedTensorMap {
  const named: tf.NamedTensorMap = {};
  variables.forEach(({ name }, place) => {
    const gradient = gradients[place];
    if (gradient !== undefined) named[name] = gradient;
    // A variable that is not trainable is listed with null.
    else if (name in found) named[name] = null as unknown as tf.Tensor;
  });
  return named;
}
