// The optimizer with op Adasum, in Horovod's "delta" form. Every rank makes its own step with its own gradients and the
// wrapped optimizer's own state; what the step has changed, the *delta* of each variable, is combined with Adasum and put
// on the value from before. So Adasum sees what the optimizer would really do, momentum and all, not raw gradients. With
// backwardPassesPerStep N the ranks make N steps by themselves before their deltas are combined.

import * as tf from '@tensorflow/tfjs';
import { readTensor } from '../tensor-access.ts';
import { GradientReducer, type Pass } from './gradient-reducer.ts';
import { type LocalVariables, trainableVariables } from './local-variables.ts';
import { areOf, entriesOf, type NamedGradients, variablesOf } from './named-gradients.ts';
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
  /** Of the last computeGradients(): the gradients that come back may be fewer, and on each rank others. */
  #computed: readonly tf.Variable[] | undefined;
  /** Variables that may have deltas, in an order that is the same on all ranks. */
  readonly #variables = new Set<tf.Variable>();
  /** What those with a gradient here were when the deltas began to count. */
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
    this.#computed = undefined; // whatever becomes of this pass
    this.#timer = timeStep();
    const timed = () => {
      const value = f();
      this.#timer?.end('forwardMs');
      return value;
    };
    const result = this.#base.computeGradients.call(this.#optimizer, timed, varList);
    this.#timer?.end('backwardMs');
    this.#computed = varList ?? trainableVariables();
    return result;
  }

  applyGradients(given: NamedGradients): void {
    this.#timer?.skip();
    const size = this.#reducer.groupSize();
    checkRegistered(this.#rules);
    const variables = variablesOf(given, this.#rules.what);
    if (size > 1) this.#rememberStarts(given, variables);
    this.#computed = undefined;
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

  #rememberStarts(given: NamedGradients, variables: readonly tf.Variable[]): void {
    const locals = this.#locals.current();
    const computed = this.#computed;
    const all = computed !== undefined && areOf(given, computed) ? computed : variables;
    for (const variable of all) if (!locals.has(variable)) this.#variables.add(variable);
    entriesOf(given).forEach(({ tensor }, place) => {
      const variable = variables[place] as tf.Variable;
      if (tensor == null || locals.has(variable) || this.#starts.has(variable)) return;
      // The clone shares the memory; a variable gets other memory when it is assigned to.
      this.#starts.set(variable, tf.keep(variable.clone()));
    });
  }

  #combine(): void {
    const variables = [...this.#variables];
    const pass: Pass = this.#reducer.begin(variables);
    const deltas = variables.map((variable) => {
      const start = this.#starts.get(variable);
      return start === undefined ? undefined : tf.tidy(() => variable.sub(start));
    });
    const combined = pass.finishOwn(deltas);
    tf.tidy(() => {
      variables.forEach((variable, place) => {
        const delta = combined[place];
        const start = this.#starts.get(variable) ?? variable;
        if (delta !== undefined) variable.assign(start.add(delta));
      });
    });
    tf.dispose(combined.filter((delta): delta is tf.Tensor => delta !== undefined));
    this.#forgetStarts();
  }

  #forgetStarts(): void {
    tf.dispose([...this.#starts.values()]);
    this.#starts.clear();
    this.#variables.clear();
  }
}

function areFinite(given: NamedGradients): boolean {
  return entriesOf(given).every(
    ({ tensor }) => tensor == null || (readTensor(tensor) as Float32Array).every(Number.isFinite),
  );
}
