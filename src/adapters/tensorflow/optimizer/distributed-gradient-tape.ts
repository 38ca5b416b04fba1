// DistributedGradientTape: tf.variableGrads() whose gradients are reduced over the ranks, for training loops of
// one's own with a plain optimizer.

import * as tf from '@tensorflow/tfjs';
import { defaultContext } from '../../../context/default/default-context.ts';
import { HorovodError } from '../../../errors.ts';
import { describe } from '../../../tensor/tensor.ts';
import { registerErrorFeedback } from './error-feedback.ts';
import { GradientReducer, type Gradients, type Pass } from './gradient-reducer.ts';
import { type AnyVariable, LocalVariables, variableOf } from './local-variables.ts';
import { checkGradientOptions, checkRegistered, type GradientOptions } from './options.ts';
import { Loss } from './own-gradients.ts';

export interface GradientTapeOptions extends GradientOptions {
  /** Reduce gradients while backpropagation goes on (gradientSync() only). Default true; see HOROVOD_OVERLAP. */
  overlap?: boolean | undefined;
}

/** As tf.variableGrads() gives it: gradients by the names of their variables. All tensors are the caller's. */
export interface ValueAndGradients {
  readonly value: tf.Scalar;
  readonly grads: tf.NamedTensorMap;
}

export interface VariableGradient {
  readonly variable: tf.Variable;
  /** Undefined where the loss does not depend on the variable. */
  readonly gradient: tf.Tensor | undefined;
}

export class DistributedGradientTape {
  readonly #reducer: GradientReducer;
  readonly #locals: LocalVariables = new LocalVariables();
  readonly #what: string = this.constructor.name;

  constructor(options: GradientTapeOptions = {}) {
    const { overlap = true, ...others } = Object(options) as GradientTapeOptions;
    const rules = checkGradientOptions(others, this.#what);
    if (typeof overlap !== 'boolean') {
      throw new HorovodError(
        'ERR_HVD_INVALID_ARGUMENT',
        `${this.#what}: overlap is true or false, not ${describe(overlap)}.`,
      );
    }
    this.#reducer = new GradientReducer(rules, overlap);
    registerErrorFeedback(this, this.#reducer.errorFeedback);
  }

  /** Computes the gradients of the loss, reduces them over the ranks, and resolves to the loss and them. */
  async gradient(lossFn: () => tf.Scalar, variables?: readonly AnyVariable[]): Promise<ValueAndGradients> {
    const isAlone = this.#isAlone();
    const { value, list, own } = this.#compute(lossFn, variables, undefined);
    if (isAlone) {
      markStep();
      return { value, grads: named(list, own) };
    }
    const reduced = await this.#reducer.reduceLater(this.#global(list), this.#onlyGlobal(list, own));
    const merged = this.#merge(list, own, reduced);
    tf.dispose(this.#onlyGlobal(list, own).filter((gradient) => gradient !== undefined));
    markStep();
    return { value, grads: named(list, merged) };
  }

  /** The blocking form of gradient(). */
  gradientSync(lossFn: () => tf.Scalar, variables?: readonly AnyVariable[]): ValueAndGradients {
    const { value, list, gradients } = this.#computeSync(lossFn, variables);
    return { value, grads: named(list, gradients) };
  }

  /** As gradientSync(), with local and reduced gradients apart. */
  getLocalAndGlobalGradients(
    lossFn: () => tf.Scalar,
    variables?: readonly AnyVariable[],
  ): { value: tf.Scalar; local: VariableGradient[]; global: VariableGradient[] } {
    const { value, list, gradients } = this.#computeSync(lossFn, variables);
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
  protected addLocalLayers(layers: tf.layers.Layer | readonly tf.layers.Layer[] | undefined): void {
    this.#locals.addLayers(layers, this.#what);
  }

  #computeSync(
    lossFn: () => tf.Scalar,
    variables: readonly AnyVariable[] | undefined,
  ): { value: tf.Scalar; list: tf.Variable[]; gradients: Gradients } {
    const list = this.#listOf(variables);
    const pass = this.#isAlone() ? undefined : this.#reducer.begin(this.#global(list));
    const { value, own } = this.#compute(lossFn, list, pass);
    const reduced = pass?.finish(this.#onlyGlobal(list, own));
    const gradients = reduced === undefined ? own : this.#merge(list, own, reduced);
    markStep();
    return { value, list, gradients };
  }

  #compute(
    lossFn: () => tf.Scalar,
    variables: readonly AnyVariable[] | undefined,
    pass: Pass | undefined,
  ): { value: tf.Scalar; list: tf.Variable[]; own: Gradients } {
    if (typeof lossFn !== 'function') {
      throw new HorovodError(
        'ERR_HVD_INVALID_ARGUMENT',
        `${this.#what}: expected a function that returns the loss, not ${describe(lossFn)}.`,
      );
    }
    const list = this.#listOf(variables);
    const loss = new Loss(lossFn, this.#what);
    const { value, grads } = tf.variableGrads(pass?.listening(loss.compute) ?? loss.compute, list);
    return { value, list, own: loss.ownGradients(list, grads) };
  }

  #isAlone(): boolean {
    const size = this.#reducer.groupSize();
    checkRegistered(this.#reducer.rules);
    return size === 1;
  }

  #listOf(variables: readonly AnyVariable[] | undefined): tf.Variable[] {
    if (variables !== undefined) return variables.map((variable) => variableOf(variable, this.#what));
    return Object.values(tf.engine().registeredVariables).filter(({ trainable }) => trainable);
  }

  #global(list: readonly tf.Variable[]): tf.Variable[] {
    const locals = this.#locals.current();
    return list.filter((variable) => !locals.has(variable));
  }

  #onlyGlobal(list: readonly tf.Variable[], gradients: Gradients): Gradients {
    const locals = this.#locals.current();
    return gradients.filter((_, i) => !locals.has(list[i] as tf.Variable));
  }

  /** The reduced gradients among the local ones, which are scaled. */
  #merge(list: readonly tf.Variable[], own: Gradients, reduced: Gradients): Gradients {
    const locals = this.#locals.current();
    const { scaleLocalGradients } = this.#reducer.rules;
    let next = 0;
    return list.map((variable, i) => {
      if (!locals.has(variable)) return reduced[next++];
      const gradient = own[i];
      if (gradient === undefined || !scaleLocalGradients) return gradient;
      const scaled = tf.div(gradient, this.#reducer.groupSize());
      gradient.dispose();
      return scaled;
    });
  }
}

export interface PartialGradientTapeOptions extends GradientTapeOptions {
  /** Layers whose weights each rank trains by itself. */
  localLayers?: tf.layers.Layer | readonly tf.layers.Layer[] | undefined;
}

/** A DistributedGradientTape for models of which some layers are each rank's own. */
export class PartialDistributedGradientTape extends DistributedGradientTape {
  constructor(options: PartialGradientTapeOptions = {}) {
    const { localLayers, ...others } = Object(options) as PartialGradientTapeOptions;
    super(others);
    this.addLocalLayers(localLayers);
  }
}

/** The gradients of a step are there, which is as near to its end as a tape can know. */
function markStep(): void {
  defaultContext().steps.report();
}

function named(list: readonly tf.Variable[], gradients: Gradients): tf.NamedTensorMap {
  const map: tf.NamedTensorMap = {};
  list.forEach(({ name }, i) => {
    const gradient = gradients[i];
    if (gradient !== undefined) map[name] = gradient;
  });
  return map;
}
