// What the compiler must accept and refuse of hvd.elastic in horovod/tensorflow, horovod/keras and horovod/jax.

import { numpy as np } from '@jax-js/jax';
import * as tf from '@tensorflow/tfjs';
import * as jax from 'horovod/jax';
import * as keras from 'horovod/keras';
import * as hvd from 'horovod/tensorflow';

const weights = [tf.variable(tf.zeros([2]))];
const optimizer = hvd.DistributedOptimizer(tf.train.adam());
const sampler = new hvd.elastic.ElasticSampler({ length: 10, batchSize: 2 });
const state = new hvd.elastic.TensorFlowState({
  variables: weights,
  optimizer,
  epoch: 0,
  sampler,
  mirrorEvery: 5,
});

state.epoch += 1;
// @ts-expect-error what is trained is no field
console.log(state.optimizer);
// @ts-expect-error variables are those of TensorFlow.js
new hvd.elastic.TensorFlowState({ variables: [new Float32Array(2)] });
// @ts-expect-error a number of commits
new hvd.elastic.TensorFlowState({ optimizer, mirrorEvery: 'often' });
export const trained: Promise<number> = hvd.elastic.run((given) => given.epoch, state);

// A batch of tensors has tensors, and what is left of an epoch, too.
const data = { x: tf.zeros<tf.Rank.R2>([10, 3]), y: tf.zeros<tf.Rank.R1>([10]) };
for (const batch of sampler.batches()) {
  const { x, y }: { x: tf.Tensor2D; y: tf.Tensor1D } = batch.take(data);
  tf.dispose([x, y]);
  sampler.record(batch);
}
export const left: { x: tf.Tensor2D; y: tf.Tensor1D } = sampler.tensors(data);

const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [3] })] });
const kept = new keras.elastic.KerasState({ model, epoch: 0, batch: 0 });
export const own: tf.LayersModel = kept.model;
// @ts-expect-error the model stays
kept.model = model;
// @ts-expect-error a state of a model has one
new keras.elastic.KerasState({ epoch: 0 });
await model.fit(data.x, data.y, { initialEpoch: kept.epoch, callbacks: keras.elastic.callbacks(kept) });
const { CommitStateCallback, UpdateBatchStateCallback, UpdateEpochStateCallback } = keras.elastic;
export const listed: tf.Callback[] = [
  new UpdateBatchStateCallback(kept),
  UpdateEpochStateCallback(kept),
  new CommitStateCallback(kept, { batchesPerCommit: 10 }),
];
// @ts-expect-error it counts batches in the state
new UpdateBatchStateCallback(state);
// @ts-expect-error no such option
new CommitStateCallback(kept, { every: 10 });

const trees = { params: { w: np.zeros([3]) } };
const grown = new jax.elastic.JaxState({ trees, epoch: 0 });
grown.trees.params = { w: np.ones([3]) };
grown.epoch += 1;
// @ts-expect-error no such tree
console.log(grown.trees.weights);
// @ts-expect-error trees have names
new jax.elastic.JaxState({ params: np.zeros([3]) });
export const steps: Promise<number> = jax.elastic.run((given) => given.epoch, grown);
