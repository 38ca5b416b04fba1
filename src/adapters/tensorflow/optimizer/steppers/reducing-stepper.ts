// The ordinary distributed optimizer: gradients are reduced over the ranks before the optimizer sees them. Those of
// computeGradients() are reduced there; those that the user has computed, in applyGradients().

import * as tf from '@tensorflow/tfjs';
import { Average } from '../../../../tensor/reduce-op.ts';
import { runSync } from '../../../both-forms.ts';
import { currentContext, trainingSteps } from '../../../context.ts';
import type { DivergenceGuard } from '../../../divergence/divergence-guard.ts';
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
import { foreignTapeNodes } from '../tape-activity.ts';
import { BaseStepper, type Computed, type StepperParts } from './stepper.ts';

export class ReducingStepper extends BaseStepper {
  readonly #reducer: GradientReducer;
  /** What has become of the gradients that applyGradients() will be given. */
  #prepared: 'not yet' | 'reduced' | 'only summed up' = 'not yet';
  /** Those that computeGradients() has returned last. */
  #returned: { readonly tensors: ReadonlySet<tf.Tensor>; readonly foreignNodes: number } | undefined;
  #hasWarned = false;

  constructor(parts: StepperParts) {
    super(parts);
    this.#reducer = new GradientReducer(parts.rules, parts.rules.overlap && this.aggregation === undefined);
    registerErrorFeedback(parts.optimizer, this.#reducer.errorFeedback);
  }

  get guard(): DivergenceGuard {
    return this.#reducer.guard;
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
    const named = namedGradients(variables, list, grads);
    this.#returned = { tensors: new Set(Object.values(named)), foreignNodes: foreignTapeNodes() };
    return { value, grads: named };
  }

  applyGradients(given: NamedGradients): void {
    this.timer?.skip();
    if (this.#prepared === 'reduced' && this.#areNew(given)) this.#prepared = 'not yet';
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

  /**
   * Whether these gradients were computed without us after computeGradients(), which was only called to look at its result. The
   * reduced gradients, clipped say, are other tensors too, but were made without backpropagation.
   */
  #areNew(given: NamedGradients): boolean {
    const returned = this.#returned;
    if (returned === undefined || returned.foreignNodes === foreignTapeNodes()) return false;
    if (entriesOf(given).some(({ tensor }) => returned.tensors.has(tensor))) return false;
    const { op, what } = this.rules;
    // Gradients that are the same on all ranks stay so when they are averaged again, but not when they are summed.
    if (op !== Average && !this.#hasWarned && this.#reducer.groupSize() > 1) {
      this.#hasWarned = true;
      currentContext().log.write(
        'warning',
        `${what}: applyGradients() was given gradients that were computed after computeGradients(). They are taken for those of this rank ` +
          'and reduced. If they are made from what computeGradients() returned, compute the other gradients before it.',
      );
    }
    return true;
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
    if (size > 1) runSync(this.#reducer.check(locals.globalOf(variables), reduced));
    this.#prepared = 'reduced';
    return locals.merge(variables, complete, reduced, divisor);
  }

  /** For applyGradients() alone: the gradients stay the caller's and unchanged. Those returned are ours. */
  #reduceGiven(given: NamedGradients): NamedGradient[] {
    trainingSteps()?.begin();
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
