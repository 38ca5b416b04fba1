// Whether TensorFlow.js has recorded operations for backpropagation that Horovod did not ask for. It tells gradients that the
// user has computed since computeGradients() from those that computeGradients() returned.

import * as tf from '@tensorflow/tfjs';

/** Operations recorded for our own passes. */
const own = new WeakMap<ReturnType<typeof tf.engine>, number>();

/** Runs a pass of ours. */
export function asOwnTape<T>(pass: () => T): T {
  const engine = tf.engine();
  const before = engine.state.nextTapeNodeId;
  try {
    return pass();
  } finally {
    own.set(engine, (own.get(engine) ?? 0) + engine.state.nextTapeNodeId - before);
  }
}

/** Counts operations that were recorded for anybody else. */
export function foreignTapeNodes(): number {
  const engine = tf.engine();
  return engine.state.nextTapeNodeId - (own.get(engine) ?? 0);
}
