// This is `npm start`: a small convolutional network learns to recognize handwritten digits (MNIST) on several ranks. It
// trains with model.fit(), like any TensorFlow.js script. The numbers ① to ⑦ mark what makes it distributed.
//
//   npx horovodrun -np 2 examples/keras/mnist.ts                two ranks; ≥ 98 % in about a minute on two cores
//   npx horovodrun -np 4 examples/keras/mnist.ts --epochs 6     four ranks, six epochs
//   npx horovodrun -np 2 examples/keras/mnist.ts --steps 20     a quick try: 20 batches, no target

import * as tf from '@tensorflow/tfjs';
import * as hvd from 'horovod/keras';
import { backends, oneOf, readOptions, wholeNumber } from '../command-line.ts';
import { classes, type Digits, imageSize, loadMnist } from '../data/mnist.ts';

const targetPercent = 98;
const defaultEpochs = 4;

const usage = `horovodrun -np <ranks> examples/keras/mnist.ts [options]

  --epochs <n>       number of epochs (default: ${defaultEpochs})
  --batch-size <n>   images per batch on each rank (default: 64)
  --steps <n>        batches per epoch (default: all images)
  --backend <name>   ${backends.join(', ')} (default: auto)

Exits with code 1 if the test accuracy is below ${targetPercent} % after ${defaultEpochs} or more full epochs.`;

const options = readOptions(usage, {
  epochs: { type: 'string', default: String(defaultEpochs) },
  'batch-size': { type: 'string', default: '64' },
  steps: { type: 'string' },
  backend: { type: 'string', default: 'auto' },
});

const epochs = wholeNumber('--epochs', options.epochs);
const batchSize = wholeNumber('--batch-size', options['batch-size']);
const steps = options.steps === undefined ? undefined : wholeNumber('--steps', options.steps);
const startedAt = performance.now();

await hvd.init(); // ① find the other ranks
const backend = await hvd.setBackend(oneOf('--backend', options.backend, backends));
const isLeader = hvd.rank() === 0;

const share = { rank: hvd.rank(), size: hvd.size() }; // ② take this rank's share of the images
const training = loadMnist('train', steps === undefined ? share : { ...share, limit: steps * batchSize });
const testing = loadMnist('test', share);

const model = tf.sequential({
  layers: [
    tf.layers.conv2d({
      inputShape: [imageSize, imageSize, 1],
      filters: 8,
      kernelSize: 5,
      activation: 'relu',
    }),
    tf.layers.maxPooling2d({ poolSize: 2 }),
    tf.layers.conv2d({ filters: 16, kernelSize: 5, activation: 'relu' }),
    tf.layers.maxPooling2d({ poolSize: 2 }),
    tf.layers.flatten(),
    tf.layers.dense({ units: 64, activation: 'relu' }),
    tf.layers.dense({ units: classes, activation: 'softmax' }),
  ],
});

// ③ Scale the learning rate: an update uses the images of all ranks.
const learningRate = 0.001 * hvd.size();
// ④ Average the gradients over all ranks before they are applied.
const optimizer = hvd.DistributedOptimizer(tf.train.adam(learningRate));
model.compile({ optimizer, loss: 'sparseCategoricalCrossentropy', metrics: ['accuracy'] });

if (isLeader) {
  console.log(
    `${training.count * hvd.size()} images on ${hvd.size()} rank(s), ${model.countParams()} weights, ` +
      `backend: ${backend}, transport: ${hvd.transportName()}`,
  );
}

const [images, labels] = toTensors(training);
const [testImages, testLabels] = toTensors(testing);

const { history } = await model.fit(images, labels, {
  batchSize,
  epochs,
  verbose: 0, // otherwise tfjs-node draws a progress bar on every rank
  validationData: [testImages, testLabels],
  callbacks: [
    new hvd.callbacks.BroadcastGlobalVariablesCallback(0), // ⑤ start from rank 0's weights
    new hvd.callbacks.MetricAverageCallback(), // ⑥ average the metrics over all ranks
    // Use a lower learning rate in the last epoch.
    new hvd.callbacks.LearningRateScheduleCallback({
      initialLr: learningRate,
      multiplier: (epoch) => (epoch > 0 && epoch >= epochs - 1 ? 0.1 : 1),
    }),
    new hvd.callbacks.ProgressCallback(), // ⑦ show progress on rank 0
  ],
});

// Because of ⑥, this is the average over all ranks, so over all test images.
const accuracy = history['val_acc']?.at(-1) as number;
const percent = 100 * accuracy;
const isFullRun = steps === undefined && epochs >= defaultEpochs;
if (isLeader) {
  console.log(`${((performance.now() - startedAt) / 1000).toFixed(1)} s in total`);
  console.log(`test accuracy ${percent.toFixed(2)} %${isFullRun ? ` (target ${targetPercent} %)` : ''}`);
}
await hvd.shutdown();
if (isFullRun && percent < targetPercent) process.exitCode = 1;

function toTensors({ count, images, labels }: Digits): [tf.Tensor4D, tf.Tensor1D] {
  return [
    tf.tensor4d(images, [count, imageSize, imageSize, 1]),
    tf.tensor1d(Float32Array.from(labels), 'float32'),
  ];
}
