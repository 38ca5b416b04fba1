// DistributedGradientTape: tf.variableGrads() whose gradients are reduced over the ranks, for custom training loops with a
// plain optimizer.

import * as tf from '@tensorflow/tfjs';
import { invalid, readFlag } from '../../../operations/check-options.ts';
import { describe } from '../../../tensor/tensor.ts';
import { run, runSync } from '../../both-forms.ts';
import { currentContext } from '../../context.ts';
import type { BackwardPass } from './backward-pass.ts';
import { registerErrorFeedback } from './error-feedback.ts';
import { GradientReducer } from './gradient-reducer.ts';
import { type Gradients, Loss, namedGradients } from './gradients.ts';
import {
  type AnyVariable,
  type LocalLayers,
  LocalVariables,
  trainableVariables,
  variableOf,
} from './local-variables.ts';
import { checkGradientOptions, type GradientOptions } from './options.ts';
import { asOwnTape } from './tape-activity.ts';

export interface GradientTapeOptions extends GradientOptions {
  /** Reduce gradients during backpropagation (gradientSync() only). Default: true; see HOROVOD_OVERLAP. */
  overlap?: boolean | undefined;
}

/** As tf.variableGrads() gives it: gradients by the names of their variables. All tensors belong to the caller. */
export interface ValueAndGradients {
  readonly value: tf.Scalar;
  readonly grads: tf.NamedTensorMap;
}

export interface VariableGradient {
  readonly variable: tf.Variable;
  /** Undefined where the loss does not depend on the variable. */
  readonly gradient: tf.Tensor | undefined;
}

/** Gradients in the order of the variables. */
interface Computed {
  readonly value: tf.Scalar;
  readonly variables: readonly tf.Variable[];
  readonly gradients: Gradients;
}

export class DistributedGradientTape {
  readonly #reducer: GradientReducer;
  readonly #locals: LocalVariables = new LocalVariables();
  readonly #what: string = this.constructor.name;

  constructor(options: GradientTapeOptions = {}) {
    const { overlap, ...others } = Object(options) as GradientTapeOptions;
    const rules = checkGradientOptions(others, this.#what);
    this.#reducer = new GradientReducer(rules, readFlag({ overlap }, 'overlap', true, this.#what));
    registerErrorFeedback(this, this.#reducer.errorFeedback);
  }

  /** Computes the gradients of the loss, reduces them over the ranks, and resolves to the loss and them. */
  async gradient(lossFn: () => tf.Scalar, variables?: readonly AnyVariable[]): Promise<ValueAndGradients> {
    const list = this.#listOf(variables);
    currentContext().steps.begin();
    const isAlone = this.#reducer.groupSize() === 1;
    const { value, gradients: own } = this.#compute(lossFn, list, undefined);
    let gradients = own;
    if (!isAlone) {
      const global = this.#locals.globalGradients(list, own);
      const reduced = await this.#reducer.reduceLater(this.#locals.globalOf(list), global);
      await run(this.#reducer.check(this.#locals.globalOf(list), reduced));
      gradients = this.#merge(list, own, reduced);
      tf.dispose(global.filter((gradient) => gradient !== undefined));
    }
    currentContext().reportStep(); // the gradients are there, which is as near to the end of a step as a tape can know
    return { value, grads: namedGradients(list, gradients) };
  }

  /** The blocking form of gradient(). */
  gradientSync(lossFn: () => tf.Scalar, variables?: readonly AnyVariable[]): ValueAndGradients {
    const { value, variables: list, gradients } = this.#computeSync(lossFn, variables);
    return { value, grads: namedGradients(list, gradients) };
  }

  /** As gradientSync(), with local and reduced gradients apart. */
  getLocalAndGlobalGradients(
    lossFn: () => tf.Scalar,
    variables?: readonly AnyVariable[],
  ): { value: tf.Scalar; local: VariableGradient[]; global: VariableGradient[] } {
    const { value, variables: list, gradients } = this.#computeSync(lossFn, variables);
    const locals = this.#locals.current();
    const all = list.map((variable, i) => ({ variable, gradient: gradients[i] }));
    return {
      value,
      local: all.filter(({ variable }) => locals.has(variable)),
      global: all.filter(({ variable }) => !locals.has(variable)),
    };
  }

  /** Its gradient stays on this rank; divided by the number of ranks unless scaleLocalGradients is false. */
  registerLocalSource(variable: AnyVariable): void {
    this.#locals.add(variable, `${this.#what}.registerLocalSource()`);
  }

  /** For PartialDistributedGradientTape. */
  protected addLocalLayers(layers: LocalLayers | undefined): void {
    this.#locals.addLayers(layers, this.#what);
  }

  #computeSync(lossFn: () => tf.Scalar, given: readonly AnyVariable[] | undefined): Computed {
    const variables = this.#listOf(given);
    currentContext().steps.begin();
    const isAlone = this.#reducer.groupSize() === 1;
    const pass = isAlone ? undefined : this.#reducer.begin(this.#locals.globalOf(variables));
    const { value, gradients: own } = this.#compute(lossFn, variables, pass);
    const reduced = pass?.finish(this.#locals.globalGradients(variables, own));
    if (reduced !== undefined) runSync(this.#reducer.check(this.#locals.globalOf(variables), reduced));
    const gradients = reduced === undefined ? own : this.#merge(variables, own, reduced);
    currentContext().reportStep();
    return { value, variables, gradients };
  }

  #compute(lossFn: () => tf.Scalar, variables: tf.Variable[], pass: BackwardPass | undefined): Computed {
    if (typeof lossFn !== 'function') {
      throw invalid(this.#what, `expected a function that returns the loss, not ${describe(lossFn)}`);
    }
    const loss = new Loss(lossFn, this.#what);
    const f = pass?.listening(loss.compute) ?? loss.compute;
    const { value, grads } = asOwnTape(() => tf.variableGrads(f, variables));
    return { value, variables, gradients: loss.ownGradients(variables, grads) };
  }

  #listOf(variables: readonly AnyVariable[] | undefined): tf.Variable[] {
    return variables?.map((variable) => variableOf(variable, this.#what)) ?? trainableVariables();
  }

  #merge(variables: readonly tf.Variable[], own: Gradients, reduced: Gradients): Gradients {
    const { rules } = this.#reducer;
    const divisor = rules.scaleLocalGradients ? this.#reducer.groupSize() : 1;
    return this.#locals.merge(variables, own, reduced, divisor);
  }
}

export interface PartialGradientTapeOptions extends GradientTapeOptions {
  /** Layers whose weights each rank trains by itself. */
  localLayers?: LocalLayers | undefined;
}

/** A DistributedGradientTape for models with local layers. */
export class PartialDistributedGradientTape extends DistributedGradientTape {
  constructor(options: PartialGradientTapeOptions = {}) {
    const { localLayers, ...others } = Object(options) as PartialGradientTapeOptions;
    super(others);
    this.addLocalLayers(localLayers);
  }
}
