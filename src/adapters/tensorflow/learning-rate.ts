// Learning rate and momentum of TensorFlow.js optimizers, which have no common way to read or change them. They are
// plain numbers on every optimizer, but not always the numbers that are used:
//
//   SGD, Momentum                               the step uses a scalar tensor that only setLearningRate() renews
//   Adam, Adamax, RMSProp, Adagrad, Adadelta    the field is read on every step
//   Momentum's momentum                         the step uses the tensor `m`, which setMomentum() forgets to renew
//   RMSProp's momentum                          the field is read on every step
//
// DistributedOptimizer() keeps an optimizer's fields, so wrapped ones need nothing special.

import * as tf from '@tensorflow/tfjs';
import { invalid } from '../../operations/check-options.ts';
import { describe } from '../../tensor/tensor.ts';
import { checkOptimizer } from './accumulators.ts';

/** The fields in question; protected or private in TensorFlow.js's declarations. */
interface OpenOptimizer {
  learningRate?: unknown;
  setLearningRate?(learningRate: number): void;
  momentum?: unknown;
  /** MomentumOptimizer's: the momentum as the step uses it. */
  m?: unknown;
}

/** The learning rate of the next step. */
export function getLearningRate(optimizer: tf.Optimizer): number {
  checkOptimizer(optimizer, 'getLearningRate()');
  const { learningRate } = optimizer as unknown as OpenOptimizer;
  if (typeof learningRate === 'number') return learningRate;
  throw invalid(
    'getLearningRate()',
    `${optimizer.getClassName()} has no number learningRate; the optimizers of tf.train have, and your own class must`,
  );
}

/** Sets the learning rate, from the next step on. */
export function setLearningRate(optimizer: tf.Optimizer, learningRate: number): void {
  const what = 'setLearningRate()';
  checkOptimizer(optimizer, what);
  checkNumber(learningRate, 'learning rate', what);
  getLearningRate(optimizer);
  const open = optimizer as unknown as OpenOptimizer;
  if (typeof open.setLearningRate === 'function') open.setLearningRate(learningRate);
  else open.learningRate = learningRate;
}

/** The momentum of the next step; undefined for an optimizer that has none. */
export function getMomentum(optimizer: tf.Optimizer): number | undefined {
  checkOptimizer(optimizer, 'getMomentum()');
  const { momentum } = optimizer as unknown as OpenOptimizer;
  return typeof momentum === 'number' ? momentum : undefined;
}

/** Sets the momentum, from the next step on. */
export function setMomentum(optimizer: tf.Optimizer, momentum: number): void {
  const what = 'setMomentum()';
  checkOptimizer(optimizer, what);
  checkNumber(momentum, 'momentum', what);
  if (getMomentum(optimizer) === undefined) {
    const name = optimizer.getClassName();
    throw invalid(what, `${name} has no momentum to set; tf.train.momentum() and rmsprop() have`);
  }
  const open = optimizer as unknown as OpenOptimizer;
  open.momentum = momentum;
  if (!(open.m instanceof tf.Tensor)) return;
  open.m.dispose();
  open.m = tf.keep(tf.scalar(momentum)); // keep(): this may be called inside tf.tidy()
}

/** NaN would turn all weights into NaN in the next step. */
function checkNumber(value: unknown, name: string, what: string): void {
  if (typeof value === 'number' && Number.isFinite(value)) return;
  throw invalid(what, `a ${name} is a finite number, not ${describe(value)}`);
}
