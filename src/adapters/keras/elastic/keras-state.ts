// KerasState: a model of tf.layers, its optimizer, and fields. Weights that are not trained are part of it: moving averages change in
// every forward pass.

import * as tf from '@tensorflow/tfjs';
import { partsOfFields } from '../../../elastic/object-state.ts';
import type { StatePart } from '../../../elastic/runner.ts';
import { State } from '../../../elastic/state.ts';
import { checkNames, invalid } from '../../../operations/check-options.ts';
import { describe } from '../../../tensor/tensor.ts';
import { partsOfTraining } from '../../tensorflow/elastic/tensorflow-state.ts';
import { variableOf } from '../../tensorflow/optimizer/local-variables.ts';

export interface KerasParts {
  /** With all its layers, so that it has its weights. */
  readonly model: tf.LayersModel;
  /** Default: that of compile(). */
  readonly optimizer?: tf.Optimizer | undefined;
  /** As in TensorFlowState. */
  readonly mirrorEvery?: number | undefined;
}

/** A state of a model, with all its weights, its optimizer, and of fields as ObjectState has them. */
export type KerasState<F extends object = object> = State &
  Omit<F, keyof KerasParts> & { readonly model: tf.LayersModel };
export const KerasState: new <F extends object>(content: KerasParts & F) => KerasState<F> =
  class KerasState extends State {
    readonly model: tf.LayersModel;
    readonly #parts: readonly StatePart[];

    constructor(content: KerasParts) {
      super();
      const what = 'KerasState';
      checkNames(content, Object.keys(Object(content)), what);
      const { model, optimizer, mirrorEvery, ...fields } = content;
      this.model = model;
      const weights = weightsOf(model, what);
      const used = optimizer ?? model.optimizer;
      if (used == null) {
        throw invalid(what, 'the model has no optimizer; call model.compile() first, or give the optimizer');
      }
      this.#parts = [
        ...partsOfFields(this, fields, what),
        ...partsOfTraining(weights, [used], { what, mirrorEvery }),
      ];
    }

    protected override parts(): readonly StatePart[] {
      return this.#parts;
    }
  } as unknown as new <F extends object>(
    content: KerasParts & F,
  ) => KerasState<F>;

function weightsOf(model: tf.LayersModel, what: string): tf.Variable[] {
  if (!(model instanceof tf.LayersModel)) {
    throw invalid(what, `model is a model of tf.layers, not ${describe(model)}`);
  }
  // model.weights is empty until the model is compiled or used; its layers have theirs as soon as they are added.
  const weights = model.layers.flatMap((layer) => layer.weights.map((weight) => variableOf(weight, what)));
  if (weights.length > 0) return [...new Set(weights)];
  throw invalid(what, 'the model has no weights yet. Add all layers before the state is made');
}
