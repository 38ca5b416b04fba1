// What a distributed optimizer has in place of the wrapped optimizer's methods. tf.layers calls minimize(), which calls
// computeGradients() and applyGradients(); a custom loop may call tf.variableGrads() and then applyGradients() alone. There
// are three steppers: they reduce gradients (reducing-stepper.ts), changes of the variables (delta-stepper.ts), or gradients of
// which each rank gets a share (sharded-stepper.ts).

import type * as tf from '@tensorflow/tfjs';
import { trainingSteps } from '../../../context.ts';
import type { DivergenceGuard } from '../../../divergence/divergence-guard.ts';
import {
  areOf,
  entriesOf,
  hasFiniteValues,
  type Loss,
  type NamedGradients,
  variablesOf,
} from '../gradients.ts';
import { type LocalVariables, trainableVariables } from '../local-variables.ts';
import type { OptimizerRules } from '../options.ts';
import type { Shards } from '../sharded/mirror.ts';
import { type StepTimer, timeStep } from '../step-times.ts';
import { asOwnTape } from '../tape-activity.ts';
import { Aggregation } from './aggregation.ts';
import { StepMarks } from './step-marks.ts';

export type Weights = Awaited<ReturnType<tf.Optimizer['getWeights']>>;
export type Computed = ReturnType<tf.Optimizer['computeGradients']>;

export interface Stepper {
  /** Steps left out because of skipNonFinite. */
  readonly skippedSteps: number;
  readonly marks: StepMarks;
  /** Compares the weights of the ranks; undefined where a step itself makes them the same. */
  readonly guard?: DivergenceGuard;
  computeGradients(f: () => tf.Scalar, varList?: tf.Variable[]): Computed;
  applyGradients(given: NamedGradients): void;
  /** Whether each rank has only a part of the optimizer's state. */
  readonly isSharded: boolean;
  /** Only where it is sharded. */
  readonly shards?: Shards;
  /** Variables that each rank trains by itself, as they are now. */
  localVariables(): ReadonlySet<tf.Variable>;
  /** False in the middle of a step of several passes: what was summed up is not part of any weight yet. */
  readonly isBetweenSteps: boolean;
  /** Drops what was summed up of a step that will not be finished. */
  abandonStep(): void;
  dispose(): void;
  /** Only where the optimizer's own will not do. */
  getWeights?(): Promise<Weights>;
  setWeights?(weights: Weights): Promise<void>;
}

export interface StepperParts {
  readonly optimizer: tf.Optimizer;
  /** Has the optimizer's own methods. */
  readonly base: tf.Optimizer;
  readonly rules: OptimizerRules;
  readonly locals: LocalVariables;
}

/** The variables that gradients are meant for. */
interface Meant {
  readonly variables: readonly tf.Variable[];
  /** Whether the user has said which ones. */
  readonly isListed: boolean;
}

/** What the steppers have in common. */
export abstract class BaseStepper implements Stepper {
  skippedSteps = 0;
  readonly marks: StepMarks = new StepMarks();
  protected readonly optimizer: tf.Optimizer;
  protected readonly base: tf.Optimizer;
  protected readonly rules: OptimizerRules;
  protected readonly locals: LocalVariables;
  /** Undefined where every pass is a step. */
  protected readonly aggregation: Aggregation | undefined;
  protected timer: StepTimer | undefined;
  #computed: Meant | undefined;

  constructor({ optimizer, base, rules, locals }: StepperParts) {
    this.optimizer = optimizer;
    this.base = base;
    this.rules = rules;
    this.locals = locals;
    this.aggregation = rules.backwardPassesPerStep > 1 ? new Aggregation(rules) : undefined;
  }

  abstract computeGradients(f: () => tf.Scalar, varList?: tf.Variable[]): Computed;
  abstract applyGradients(given: NamedGradients): void;

  get isSharded(): boolean {
    return false;
  }

  localVariables(): ReadonlySet<tf.Variable> {
    return this.locals.current();
  }

  get isBetweenSteps(): boolean {
    return this.aggregation?.isEmpty ?? true;
  }

  abandonStep(): void {
    this.aggregation?.dispose();
  }

  dispose(): void {
    this.aggregation?.dispose();
    this.base.dispose.call(this.optimizer);
  }

  /** The optimizer's own computeGradients(), timed; `f` is the loss function or a wrapped form of it. */
  protected compute(
    loss: Loss,
    varList: tf.Variable[] | undefined,
    f: () => tf.Scalar = loss.compute,
  ): Computed {
    this.#computed = undefined; // even if this pass throws
    trainingSteps()?.begin();
    this.timer = timeStep();
    const timed = () => {
      const value = f();
      this.timer?.end('forwardMs');
      return value;
    };
    const found = asOwnTape(() => this.base.computeGradients.call(this.optimizer, timed, varList));
    this.timer?.end('backwardMs');
    this.#computed = { variables: varList ?? trainableVariables(), isListed: varList !== undefined };
    return found;
  }

  /** The variables of the last computeGradients() if these gradients are of them, of all or some; once. */
  protected meant(given: NamedGradients): Meant {
    const computed = this.#computed;
    this.#computed = undefined;
    if (computed !== undefined && areOf(given, computed.variables)) return computed;
    return { variables: variablesOf(given, this.rules.what), isListed: true };
  }

  /** The optimizer's own step, unless skipNonFinite forbids it. Gradients of the variables to ignore may be anything. */
  protected update(given: NamedGradients, ignored: ReadonlySet<tf.Variable> = new Set()): void {
    const names = new Set([...ignored].map(({ name }) => name));
    const areFinite = () =>
      entriesOf(given).every(
        ({ name, tensor }) => tensor == null || names.has(name) || hasFiniteValues(tensor),
      );
    if (this.rules.skipNonFinite && !areFinite()) this.skippedSteps++;
    else this.base.applyGradients.call(this.optimizer, given);
  }

  /** A pass, or a step, has ended. */
  protected end(isStep: boolean): void {
    this.timer?.publish();
    this.timer = undefined;
    if (isStep) this.marks.stepEnded();
    else this.marks.passEnded();
  }

  /** A pass without a step counts as an iteration of the optimizer, as in Horovod for Python. */
  protected countIteration(): void {
    (this.optimizer as unknown as { incrementIterations(): void }).incrementIterations();
  }
}
