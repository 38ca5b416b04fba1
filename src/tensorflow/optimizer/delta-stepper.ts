// The optimizer with op Adasum, in Horovod's "delta" form. Every rank makes its own step with its own gradients and the
// wrapped optimizer's own state; what the step has changed, the *delta* of each variable, is combined with Adasum and put
// on the value from before. So Adasum sees what the optimizer would really do, momentum and all, not raw gradients. With
// backwardPassesPerStep N the ranks make N steps by themselves before their deltas are combined.

import * as tf from '@tensorflow/tfjs';
import { readTensor } from '../tensor-access.ts';
import { GradientReducer, type Pass } from './gradient-reducer.ts';
import type { LocalVariables } from './local-variables.ts';
import { entriesOf, type NamedGradients, variablesOf } from './named-gradients.ts';
import { checkRegistered, type OptimizerRules } from './options.ts';
import { StepMarks } from './step-marks.ts';
import { type StepTimer, timeStep } from './step-times.ts';

export class DeltaStepper {
  skippedSteps = 0;
  readonly marks: StepMarks = new StepMarks();
  readonly #optimizer: tf.Optimizer;
  readonly #base: tf.Optimizer;
  readonly #rules: OptimizerRules;
  readonly #locals: LocalVariables;
  readonly #reducer: GradientReducer;
  /** What variables were when the deltas began to count. */
  readonly #starts = new Map<tf.Variable, tf.Tensor>();
  #passes = 0;
  #timer: StepTimer | undefined;

  constructor(optimizer: tf.Optimizer, base: tf.Optimizer, rules: OptimizerRules, locals: LocalVariables) {
    this.#optimizer = optimizer;
    this.#base = base;
    this.#rules = rules;
    this.#locals = locals;
    this.#reducer = new GradientReducer(rules, false);
  }

  /** This rank's own gradients. */
  computeGradients(
    f: () => tf.Scalar,
    varList?: tf.Variable[],
  ): { value: tf.Scalar; grads: tf.NamedTensorMap } {
    this.#timer = timeStep();
    const timed = () => {
      const value = f();
      this.#timer?.end('forwardMs');
      return value;
    };
    const result = this.#base.computeGradients.call(this.#optimizer, timed, varList);
    this.#timer?.end('backwardMs');
    return result;
  }

  applyGradients(given: NamedGradients): void {
    this.#timer?.skip();
    const size = this.#reducer.groupSize();
    checkRegistered(this.#rules);
    const variables = variablesOf(given, this.#rules.what);
    if (size > 1) this.#rememberStarts(variables);
    // A rank that leaves its step out has a delta of zero, which Adasum passes over.
    if (this.#rules.skipNonFinite && !areFinite(given)) this.skippedSteps++;
    else this.#base.applyGradients.call(this.#optimizer, given);
    this.#timer?.end('updateMs');
    const isStep = size === 1 || ++this.#passes % this.#rules.backwardPassesPerStep === 0;
    if (size > 1 && isStep) this.#combine();
    this.#timer?.end('exposedCommunicationMs');
    this.#timer?.publish();
    this.#timer = undefined;
    if (isStep) this.marks.stepEnded();
    else this.marks.passEnded();
  }

  dispose(): void {
    this.#reducer.release();
    this.#forgetStarts();
    this.#base.dispose.call(this.#optimizer);
  }

  #rememberStarts(variables: readonly tf.Variable[]): void {
    const locals = this.#locals.current();
    for (const variable of variables) {
      if (locals.has(variable) || this.#starts.has(variable)) continue;
      // The clone shares the memory; a variable gets other memory when it is assigned to.
      this.#starts.set(variable, tf.keep(variable.clone()));
    }
  }

  #combine(): void {
    const variables = [...this.#starts.keys()];
    const pass: Pass = this.#reducer.begin(variables);
    const deltas = variables.map((variable) =>
      tf.tidy(() => variable.sub(this.#starts.get(variable) as tf.Tensor)),
    );
    const combined = pass.finishOwn(deltas);
    tf.tidy(() => {
      variables.forEach((variable, place) => {
        const delta = combined[place];
        const start = this.#starts.get(variable) as tf.Tensor;
        if (delta !== undefined) variable.assign(start.add(delta));
      });
    });
    tf.dispose(combined.filter((delta): delta is tf.Tensor => delta !== undefined));
    this.#forgetStarts();
  }

  #forgetStarts(): void {
    tf.dispose([...this.#starts.values()]);
    this.#starts.clear();
  }
}

function areFinite(given: NamedGradients): boolean {
  return entriesOf(given).every(
    ({ tensor }) => tensor == null || (readTensor(tensor) as Float32Array).every(Number.isFinite),
  );
}
