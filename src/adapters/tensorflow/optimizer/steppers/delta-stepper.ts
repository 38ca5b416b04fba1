// The distributed optimizer with op Adasum, in Horovod's "delta" form. Every rank takes a local step with its gradients and
// the optimizer's state; what the step has changed, the *delta* of each variable, is combined with Adasum and added to the
// value from before. So Adasum sees what the optimizer really does, momentum included, not raw gradients. With
// backwardPassesPerStep N the ranks take N local steps before their deltas are combined.

import * as tf from '@tensorflow/tfjs';
import { runSync } from '../../../both-forms.ts';
import type { DivergenceGuard } from '../../../divergence/divergence-guard.ts';
import { GradientReducer } from '../gradient-reducer.ts';
import { entriesOf, Loss, type NamedGradients } from '../gradients.ts';
import { BaseStepper, type Computed, type StepperParts } from './stepper.ts';

export class DeltaStepper extends BaseStepper {
  readonly #reducer: GradientReducer;
  /** Variables that may have deltas, in an order that is the same on all ranks. */
  readonly #variables = new Set<tf.Variable>();
  /** The values, before the first local step, of those that have a gradient here. */
  readonly #starts = new Map<tf.Variable, tf.Tensor>();
  #passes = 0;

  constructor(parts: StepperParts) {
    super(parts);
    this.#reducer = new GradientReducer(parts.rules, false);
  }

  get guard(): DivergenceGuard {
    return this.#reducer.guard;
  }

  /** This rank's gradients. */
  computeGradients(f: () => tf.Scalar, varList?: tf.Variable[]): Computed {
    return this.compute(new Loss(f, this.rules.what), varList);
  }

  applyGradients(given: NamedGradients): void {
    this.timer?.skip();
    const size = this.#reducer.groupSize();
    const { variables } = this.meant(given);
    if (size > 1) this.#rememberStarts(given, variables);
    // A rank that skips its step has a delta of zero, which Adasum ignores.
    this.update(given);
    this.timer?.end('updateMs');
    const isStep = size === 1 || ++this.#passes % this.rules.backwardPassesPerStep === 0;
    if (size > 1 && isStep) this.#combine();
    this.timer?.end('exposedCommunicationMs');
    this.end(isStep);
  }

  override get isBetweenSteps(): boolean {
    return this.#starts.size === 0;
  }

  override abandonStep(): void {
    this.#forgetStarts();
    // Ranks that have just joined count from 0.
    this.#passes = 0;
  }

  override dispose(): void {
    this.#reducer.release();
    this.#forgetStarts();
    super.dispose();
  }

  #rememberStarts(given: NamedGradients, variables: readonly tf.Variable[]): void {
    const withGradient = new Set(
      entriesOf(given).flatMap(({ name, tensor }) => (tensor == null ? [] : [name])),
    );
    for (const variable of this.locals.globalOf(variables)) {
      this.#variables.add(variable);
      if (!withGradient.has(variable.name) || this.#starts.has(variable)) continue;
      // The clone shares the memory; a variable gets other memory when it is assigned to.
      this.#starts.set(variable, tf.keep(variable.clone()));
    }
  }

  #combine(): void {
    const variables = [...this.#variables];
    const pass = this.#reducer.begin(variables);
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
    runSync(this.#reducer.check(variables, combined));
    tf.dispose(combined.filter((delta) => delta !== undefined));
    this.#forgetStarts();
  }

  #forgetStarts(): void {
    tf.dispose([...this.#starts.values()]);
    this.#starts.clear();
    this.#variables.clear();
  }
}
