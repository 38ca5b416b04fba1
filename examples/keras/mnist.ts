// `npm start`. A small convolutional network learns to read handwritten digits (MNIST) on several ranks, with model.fit()
// as in any TensorFlow.js script. What makes it distributed is marked ①…⑦.
//
//   npx horovodrun -np 2 examples/keras/mnist.ts                two ranks; ≥ 98 % in about a minute on two cores
//   npx horovodrun -np 4 examples/keras/mnist.ts --epochs 6     four ranks, six epochs
//   npx horovodrun -np 2 examples/keras/mnist.ts --steps 20     a look: 20 batches, no target

import * as tf from '@tensorflow/tfjs';
import * as hvd from 'horovod/keras';
import { backends, oneOf, readOptions, wholeNumber } from '../command-line.ts';
import { classes, type Digits, imageSize, loadMnist } from '../data/mnist.ts';

const targetPercent = 98;
const defaultEpochs = 4;

const usage = `horovodrun -np <ranks> examples/keras/mnist.ts [options]

  --epochs <n>       times through the pictures (${defaultEpochs})
  --batch-size <n>   pictures in a batch of one rank (64)
  --steps <n>        batches in an epoch (as many as there are pictures)
  --backend <name>   ${backends.join(', ')} (auto)

Ends with code 1 if a run of ${defaultEpochs} epochs or more stays below ${targetPercent} % on the test pictures.`;

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

const share = { rank: hvd.rank(), size: hvd.size() }; // ② every rank takes its share of the pictures
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

// ③ An update sees the pictures of all ranks, so it may go further.
const learningRate = 0.001 * hvd.size();
// ④ Gradients are averaged over the ranks before they are applied.
const optimizer = hvd.DistributedOptimizer(tf.train.adam(learningRate));
model.compile({ optimizer, loss: 'sparseCategoricalCrossentropy', metrics: ['accuracy'] });

if (isLeader) {
  console.log(
    `${training.count * hvd.size()} pictures on ${hvd.size()} rank(s), ${model.countParams()} weights, ` +
      `backend: ${backend}, transport: ${hvd.transportName()}`,
  );
}

const [images, labels] = toTensors(training);
const [testImages, testLabels] = toTensors(testing);

const { history } = await model.fit(images, labels, {
  batchSize,
  epochs,
  verbose: 0, // tfjs-node would draw a bar on every rank
  validationData: [testImages, testLabels],
  callbacks: [
    new hvd.callbacks.BroadcastGlobalVariablesCallback(0), // ⑤ start from rank 0's weights
    new hvd.callbacks.MetricAverageCallback(), // ⑥ report what all ranks have seen
    // Smaller steps towards the end settle the weights.
    new hvd.callbacks.LearningRateScheduleCallback({
      initialLr: learningRate,
      multiplier: (epoch) => (epoch > 0 && epoch >= epochs - 1 ? 0.1 : 1),
    }),
    new hvd.callbacks.ProgressCallback(), // ⑦ one rank shows how far it is
  ],
});

// An average over all ranks, hence over all test pictures: ⑥ has seen to that.
const accuracy = history['val_acc']?.at(-1) as number;
const percent = 100 * accuracy;
const isFullRun = steps === undefined && epochs >= defaultEpochs;
if (isLeader) {
  console.log(`${((performance.now() - startedAt) / 1000).toFixed(1)} s in all`);
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
