// The gradients of one backpropagation, as tensors that are ours to use up. Those that tf.variableGrads() gives are not
// all of that kind: a tf.customGrad() may return one tensor for two variables, or a tensor that the user has made
// before and will use again.

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../../errors.ts';
import { describe } from '../../../tensor/tensor.ts';
import type { Gradients } from './gradient-reducer.ts';

/** The loss function, with the id of its last result: tensors made by backpropagation have higher ones. */
export class Loss {
  readonly compute: () => tf.Scalar;
  #id = Number.POSITIVE_INFINITY;

  constructor(f: () => tf.Scalar, what: string) {
    this.compute = () => {
      const loss = f();
      if (!(loss instanceof tf.Tensor)) {
        throw new HorovodError(
          'ERR_HVD_INVALID_ARGUMENT',
          `${what}: the loss function returned ${describe(loss)}; expected a tf.Scalar, and no promise of one.`,
        );
      }
      this.#id = loss.id;
      return loss;
    };
  }

  /** The gradients found, in order of the variables, each a tensor of its own; the user's and repeated ones as clones. */
  ownGradients(variables: readonly tf.Variable[], found: tf.NamedTensorMap): Gradients {
    const seen = new Set<tf.Tensor>();
    return variables.map(({ name }) => {
      const gradient = found[name] ?? undefined;
      if (gradient === undefined) return undefined;
      const isOurs = gradient.id > this.#id && !seen.has(gradient);
      seen.add(gradient);
      return isOurs ? gradient : gradient.clone();
    });
  }
}
