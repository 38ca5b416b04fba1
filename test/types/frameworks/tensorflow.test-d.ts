// What users of horovod/tensorflow and horovod/keras may write, and what the compiler refuses.

import * as tf from '@tensorflow/tfjs';
import * as keras from 'horovod/keras';
import * as hvd from 'horovod/tensorflow';

// The optimizer keeps its type, and has one method more.
const adam: tf.AdamOptimizer = hvd.DistributedOptimizer(tf.train.adam(0.1));
const wrapped = hvd.DistributedOptimizer(tf.train.sgd(0.1), {
  op: hvd.Sum,
  compression: hvd.Compression.fp16,
  backwardPassesPerStep: 2,
  averageAggregatedGradients: true,
  gradientPredivideFactor: 2,
  groups: 3,
  processSet: hvd.globalProcessSet,
  scaleLocalGradients: false,
  overlap: false,
  name: 'mine',
});
const variable = tf.variable(tf.zeros([2]));
wrapped.registerLocalVar(variable);
const skipped: number = wrapped.skippedSteps;
tf.sequential().compile({ optimizer: wrapped, loss: 'meanSquaredError' });
hvd.DistributedOptimizer(tf.train.sgd(0.1), { groups: [[variable]] });

// @ts-expect-error: there is no such option
hvd.DistributedOptimizer(tf.train.sgd(0.1), { backward_passes_per_step: 2 });
// @ts-expect-error: an optimizer is wanted, not its name
hvd.DistributedOptimizer('sgd');
// @ts-expect-error: a layer is wanted
hvd.PartialDistributedOptimizer(tf.train.sgd(0.1), { localLayers: 'dense' });

const tape = new hvd.DistributedGradientTape({ op: hvd.Average });
const lossFn = (): tf.Scalar => tf.scalar(1);
const later: Promise<{ value: tf.Scalar; grads: tf.NamedTensorMap }> = tape.gradient(lossFn, [variable]);
const { value, grads } = tape.gradientSync(lossFn);
const scalar: tf.Scalar = value;
const map: tf.NamedTensorMap = grads;
new hvd.PartialDistributedGradientTape({ localLayers: tf.layers.dense({ units: 1 }) });
hvd.PartialDistributedGradientTape({ localLayers: [] }).registerLocalSource(tf.variable(tf.scalar(1)));
// @ts-expect-error: aggregation is the optimizer's
new hvd.DistributedGradientTape({ backwardPassesPerStep: 2 });

// Collectives give back what they were given.
const tensor: tf.Tensor2D = await hvd.allreduce(tf.zeros([2, 2]) as tf.Tensor2D);
const array: Float32Array = await hvd.allreduce(new Float32Array(2));
const sync: tf.Tensor = hvd.broadcastSync(tf.zeros([2]), 0);

const backend: string = await hvd.setBackend('auto');
// @ts-expect-error: no such backend
await hvd.setBackend('webgl');

await hvd.broadcastVariables([variable], 0);
await hvd.broadcastVariables(tf.sequential(), 0);

const callbacks: tf.Callback[] = [
  new keras.callbacks.BroadcastGlobalVariablesCallback(0),
  new keras.callbacks.MetricAverageCallback(),
  new keras.callbacks.LearningRateWarmupCallback({ initialLr: 0.1, warmupEpochs: 3 }),
  new keras.callbacks.LearningRateScheduleCallback({ initialLr: 0.1, multiplier: (epoch) => 0.5 ** epoch }),
];
// @ts-expect-error: initialLr is required
new keras.callbacks.LearningRateWarmupCallback({ warmupEpochs: 3 });
const model: tf.LayersModel = await keras.loadModel('model');

export { adam, array, backend, callbacks, later, map, model, scalar, skipped, sync, tensor };
