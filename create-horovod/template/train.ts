import * as tf from '@tensorflow/tfjs';
import * as hvd from 'horovod/keras';

await hvd.init(); // 1. find the other ranks (processes)
await hvd.setBackend('auto'); // tfjs-node or WebAssembly

// Toy data: which points are inside a circle?
const points = tf.randomUniform([60_000, 2], -1, 1, 'float32', 7);
const inside = points.square().sum(1, true).less(0.6).toFloat();
const { x, y } = hvd.shardTensors({ x: points, y: inside }); // 2. take this rank's share of the data

const model = tf.sequential();
model.add(tf.layers.dense({ inputShape: [2], units: 32, activation: 'relu' }));
model.add(tf.layers.dense({ units: 1, activation: 'sigmoid' }));

const adam = tf.train.adam(0.01 * hvd.size());
const optimizer = hvd.DistributedOptimizer(adam); // 3. average gradients over all ranks
model.compile({ optimizer, loss: 'binaryCrossentropy', metrics: ['accuracy'] });

await model.fit(x, y, {
  epochs: 3,
  batchSize: 200,
  verbose: 0,
  callbacks: [
    new hvd.callbacks.BroadcastGlobalVariablesCallback(0), // 4. start from the same weights
    new hvd.callbacks.MetricAverageCallback(), // 5. report the metrics of all ranks
    new hvd.callbacks.ProgressCallback(),
  ],
});
await hvd.saveModel(model, 'circle'); // only rank 0 writes
await hvd.shutdown();
