// loadModel(): a saved model with its optimizer wrapped again, so that training can be resumed.

import * as tf from '@tensorflow/tfjs';
import { invalid } from '../../operations/check-options.ts';
import { DistributedOptimizer } from '../tensorflow/optimizer/distributed-optimizer.ts';
import { errorFeedbackOf, restoreErrorFeedback } from '../tensorflow/optimizer/error-feedback.ts';
import type { DistributedOptimizerOptions } from '../tensorflow/optimizer/options.ts';
import { readErrorFeedback } from './model-files/error-feedback-file.ts';
import { fileHandler } from './model-files/file-handler.ts';

/** Classes by the name they have in model.json. */
export type CustomObjects = Record<
  string,
  tf.serialization.SerializableConstructor<tf.serialization.Serializable>
>;

export interface LoadModelOptions extends DistributedOptimizerOptions {
  /** Your own layers, regularizers, … */
  customObjects?: CustomObjects | undefined;
  /** Your own optimizers. */
  customOptimizers?: CustomObjects | undefined;
  /** Whether every weight of the model must be in the file. Default: true. */
  strict?: boolean | undefined;
}

/**
 * Loads a model from a path, a URL (file://, hdfs://, http://) or a tf.io handler. If it was saved with its optimizer, that is restored with state
 * and learning rate, and wrapped by DistributedOptimizer(). Not collective: call it on every rank, or on one and broadcast.
 * Error feedback of lossy compression is restored too: each rank takes its part, or on another number of ranks an equal share.
 */
export async function loadModel(
  location: string | URL | tf.io.IOHandler,
  options: LoadModelOptions = {},
): Promise<tf.LayersModel> {
  const { customObjects, customOptimizers, strict = true, ...distribution } = options;
  const isPlace = typeof location === 'string' || location instanceof URL;
  if (!isPlace && typeof location?.load !== 'function') {
    const given = typeof location;
    throw invalid('loadModel()', `expected a path, a URL or a tf.io handler with load(), not ${given}`);
  }
  const handler = isPlace ? fileHandler(location) : location;
  const model = await withClasses({ ...customObjects, ...customOptimizers }, () =>
    tf.loadLayersModel(handler, { strict }),
  );
  if (!model.optimizer) return model;
  restoreBetaPowers(model.optimizer);
  const wrapped = DistributedOptimizer(model.optimizer, distribution);
  // The setter would make model.dispose() spare the optimizer; here it belongs to the model.
  if (wrapped !== model.optimizer) model.optimizer = wrapped;
  if (isPlace && errorFeedbackOf(wrapped) !== undefined) {
    const state = await readErrorFeedback(location);
    if (state !== undefined) restoreErrorFeedback(wrapped, model.trainableWeights as never, state);
  }
  return model;
}

/** TensorFlow.js looks up classes in a global table: ours are in it while the model is loaded. */
async function withClasses<R>(classes: CustomObjects, load: () => Promise<R>): Promise<R> {
  const table = tf.serialization.SerializationMap.getMap().classNameMap;
  const before = new Map(Object.keys(classes).map((name) => [name, table[name]]));
  for (const [name, Class] of Object.entries(classes)) {
    table[name] = [Class, (Class as unknown as { fromConfig: never }).fromConfig];
  }
  try {
    return await load();
  } finally {
    for (const [name, entry] of before) {
      if (entry === undefined) delete table[name];
      else table[name] = entry;
    }
  }
}

/**
 * Adam's β₁ᵗ and β₂ᵗ are not saved but computed from the number of steps, by pow(); while training they are the
 * product of t roundings. Done the same way here, resumed training equals uninterrupted training to the bit.
 */
function restoreBetaPowers(optimizer: tf.Optimizer): void {
  const { accBeta1, accBeta2, beta1, beta2 } = optimizer as unknown as Record<string, unknown>;
  const power = (beta: unknown, variable: unknown) => {
    if (typeof beta !== 'number' || !(variable instanceof tf.Variable)) return;
    const factor = Math.fround(beta);
    let product = factor;
    for (let step = 0; step < optimizer.iterations && product !== 0; step += 1)
      product = Math.fround(product * factor);
    tf.tidy(() => variable.assign(tf.scalar(product)));
  };
  power(beta1, accBeta1);
  power(beta2, accBeta2);
}
