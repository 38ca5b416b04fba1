// The ordinary distributed optimizer: gradients are reduced over the ranks before the optimizer sees them. Those of
// computeGradients() are reduced there; those that the user has computed, in applyGradients().

import * as tf from '@tensorflow/tfjs';
import type { BackwardPass } from '../backward-pass.ts';
import { registerErrorFeedback } from '../error-feedback.ts';
import { GradientReducer } from '../gradient-reducer.ts';
import {
  entriesOf,
  type Gradients,
  Loss,
  type NamedGradient,
  type NamedGradients,
  namedGradients,
  variablesOf,
} from '../gradients.ts';
import { trainableVariables } from '../local-variables.ts';
import { BaseStepper, type Computed, type StepperParts } from './stepper.ts';

export class ReducingStepper extends BaseStepper {
  readonly #reducer: GradientReducer;
  /** What has become of the gradients that applyGradients() will be given. */
  #prepared: 'not yet' | 'reduced' | 'only summed up' = 'not yet';

  constructor(parts: StepperParts) {
    super(parts);
    this.#reducer = new GradientReducer(parts.rules, parts.rules.overlap && this.aggregation === undefined);
    registerErrorFeedback(parts.optimizer, this.#reducer.errorFeedback);
  }

  computeGradients(f: () => tf.Scalar, varList?: tf.Variable[]): Computed {
    this.#prepared = 'not yet'; // even if this pass throws
    const variables = varList ?? trainableVariables();
    const pass = this.#begin(variables);
    const loss = new Loss(f, this.rules.what);
    const { value, grads } = this.compute(loss, varList, pass?.listening(loss.compute));
    const own = loss.ownGradients(variables, grads);
    const list = this.#prepare(variables, own, (gradients) => pass?.finish(gradients) ?? gradients);
    this.timer?.end('exposedCommunicationMs');
    return { value, grads: namedGradients(variables, list, grads) };
  }

  applyGradients(given: NamedGradients): void {
    this.timer?.skip();
    const created = this.#prepared === 'not yet' ? this.#reduceGiven(given) : undefined;
    const isStep = this.#prepared === 'reduced';
    this.#prepared = 'not yet';
    // Local gradients differ between ranks: if they counted, ranks could decide differently whether to skip the step.
    if (isStep) this.update(created ?? given, this.locals.current());
    else this.countIteration();
    tf.dispose(created?.map(({ tensor }) => tensor) ?? []);
    this.timer?.end('updateMs');
    this.end(isStep);
  }

  override dispose(): void {
    this.#reducer.release();
    super.dispose();
  }

  #begin(variables: readonly tf.Variable[]): BackwardPass | undefined {
    return this.#reducer.groupSize() > 1 ? this.#reducer.begin(this.locals.globalOf(variables)) : undefined;
  }

  /** Sums up, reduces and scales; uses up the gradients. */
  #prepare(
    variables: readonly tf.Variable[],
    gradients: Gradients,
    finish: (gradients: Gradients) => Gradients,
  ): Gradients {
    const { aggregation, locals } = this;
    aggregation?.add(variables, gradients);
    if (aggregation?.isComplete === false) {
      this.#prepared = 'only summed up';
      return aggregation.peek(variables);
    }
    const complete = aggregation?.take(variables) ?? gradients;
    const size = this.#reducer.groupSize();
    const divisor = this.rules.scaleLocalGradients ? size : 1;
    const reduced = finish(locals.globalGradients(variables, complete));
    this.#prepared = 'reduced';
    return locals.merge(variables, complete, reduced, divisor);
  }

  /** For applyGradients() alone: the gradients stay the caller's and unchanged. Those returned are ours. */
  #reduceGiven(given: NamedGradients): NamedGradient[] {
    const entries = entriesOf(given);
    const variables = variablesOf(given, this.rules.what);
    // Clones share the memory: nothing is written into it, and the caller's tensors outlive them.
    const clones = entries.map(({ tensor }) => tensor?.clone());
    const pass = this.#begin(variables);
    const list = this.#prepare(variables, clones, (gradients) => {
      const reduced = pass?.finishWithCopies(gradients) ?? gradients;
      gradients.forEach((gradient, i) => {
        if (gradient !== reduced[i]) gradient?.dispose();
      });
      return reduced;
    });
    // Optimizers keep their state by place in the list: the places stay.
    return entries.map(({ name }, place) => ({ name, tensor: list[place] as tf.Tensor }));
  }
}
