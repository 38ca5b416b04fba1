// What the compiler must accept and refuse of the collectives of horovod/tensorflow.

import * as tf from '@tensorflow/tfjs';
import {
  allgatherSync,
  allreduce,
  allreduceSync,
  alltoall,
  broadcastSync,
  broadcastVariables,
  groupedAllreduce,
  groupedAllreduceSync,
  prepareAllreduce,
  Sum,
  SyncBatchNormalization,
} from 'horovod/tensorflow';

const matrix = tf.zeros<tf.Rank.R2>([2, 3]);
const variable = tf.variable(matrix);
const model = tf.sequential();

// You get back the kind you gave.
export const reduced: tf.Tensor2D = await allreduce(matrix);
export const reducedNow: tf.Tensor2D = allreduceSync(matrix, { op: Sum });
export const fromVariable: tf.Tensor<tf.Rank.R2> = allgatherSync(variable);
export const fromLayer: tf.Tensor = broadcastSync(model.weights[0] as tf.LayerVariable, 0);
export const floats: Float32Array = await allreduce(new Float32Array(3));
export const group: [tf.Tensor2D, Float32Array] = await groupedAllreduce([matrix, new Float32Array(1)] as [
  tf.Tensor2D,
  Float32Array,
]);
export const list: tf.Tensor[] = groupedAllreduceSync([matrix as tf.Tensor, matrix]);
const { output, receivedSplits } = await alltoall(matrix, { splits: [1, 1] });
export const sent: tf.Tensor2D = output;
export const splits: Int32Array = receivedSplits;
// @ts-expect-error a tensor does not become a typed array
export const wrong: Float32Array = await allreduce(matrix);
// @ts-expect-error text is no tensor
await allreduce('text');
// @ts-expect-error prepared buffers are typed arrays
await prepareAllreduce(matrix);

await broadcastVariables(model, 0);
await broadcastVariables([variable], 0, { timeoutMs: 5 });
await broadcastVariables(model.trainableWeights, 0);
// @ts-expect-error a tensor is no variable
await broadcastVariables([matrix], 0);

model.add(SyncBatchNormalization({ axis: 1, momentum: 0.9 }));
model.add(new SyncBatchNormalization());
// @ts-expect-error there is no such option
SyncBatchNormalization({ axes: 1 });
