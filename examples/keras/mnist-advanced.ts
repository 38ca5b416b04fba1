// MNIST with everything a longer training needs: data augmentation, learning-rate warm-up and schedule, metrics averaged
// over all ranks, checkpoints, TensorBoard, and resuming after an interruption.
//
//   npx horovodrun -np 2 examples/keras/mnist-advanced.ts --checkpoints mnist-run              start
//   npx horovodrun -np 2 examples/keras/mnist-advanced.ts --checkpoints mnist-run --epochs 12  resume
//   npx horovodrun -np 2 examples/keras/mnist-advanced.ts --steps 20 --epochs 2                a quick try

import { join } from 'node:path';
import * as tf from '@tensorflow/tfjs';
import * as hvd from 'horovod/keras';
import { backends, oneOf, readOptions, wholeNumber } from '../command-line.ts';
import { augment } from '../data/augment.ts';
import { classes, imageSize, loadMnist, pixels } from '../data/mnist.ts';

const usage = `horovodrun -np <ranks> examples/keras/mnist-advanced.ts [options]

  --epochs <n>            number of epochs (default: 8)
  --batch-size <n>        images per batch on each rank (default: 64)
  --warmup-epochs <n>     epochs in which the learning rate grows (default: 2)
  --steps <n>             batches per epoch (default: all images)
  --checkpoints <folder>  save every epoch here, and the best one in best/; resume from the last one
  --log-dir <folder>      write TensorBoard logs here
  --backend <name>        ${backends.join(', ')} (default: auto)`;

const options = readOptions(usage, {
  epochs: { type: 'string', default: '8' },
  'batch-size': { type: 'string', default: '64' },
  'warmup-epochs': { type: 'string', default: '2' },
  steps: { type: 'string' },
  checkpoints: { type: 'string' },
  'log-dir': { type: 'string' },
  backend: { type: 'string', default: 'auto' },
});

const epochs = wholeNumber('--epochs', options.epochs);
const batchSize = wholeNumber('--batch-size', options['batch-size']);
const warmupEpochs = wholeNumber('--warmup-epochs', options['warmup-epochs'], 0);
const { checkpoints, 'log-dir': logDir } = options;

await hvd.init();
const backend = await hvd.setBackend(oneOf('--backend', options.backend, backends));
const isLeader = hvd.rank() === 0;

const share = { rank: hvd.rank(), size: hvd.size() };
const training = loadMnist('train', share);
const testing = loadMnist('test', share);
const stepsPerEpoch =
  options.steps === undefined
    ? Math.floor(training.count / batchSize)
    : wholeNumber('--steps', options.steps);

// Only rank 0 needs access to the files. It tells the other ranks which epoch to start from.
const lastEpoch = checkpoints === undefined ? 0 : hvd.lastSavedEpoch(checkpointOf('{epoch}'));
const startEpoch = await hvd.broadcastObject(isLeader ? await lastEpoch : 0, 0);
const learningRate = 0.001 * hvd.size();
const model =
  isLeader && startEpoch > 0 ? await hvd.loadModel(checkpointOf(startEpoch)) : createCompiledModel();

if (isLeader) {
  const from = startEpoch > 0 ? `, resuming after epoch ${startEpoch}` : '';
  console.log(`${hvd.size()} rank(s), backend: ${backend}, transport: ${hvd.transportName()}${from}`);
}

/** Saves the model and the optimizer's state after every epoch. Only rank 0 writes. */
class SaveEveryEpoch extends tf.Callback {
  override async onEpochEnd(epoch: number): Promise<void> {
    await hvd.saveModel(this.model, checkpointOf(epoch + 1));
  }
}

const callbacks: tf.Callback[] = [
  // First, so that all ranks start with rank 0's weights and optimizer state, which may come from a checkpoint.
  new hvd.callbacks.BroadcastGlobalVariablesCallback(0),
  // Before all callbacks that use metrics, so that they see the average over all ranks.
  new hvd.callbacks.MetricAverageCallback(),
  // Start with the rate of one rank: a newly initialized model can diverge at a high learning rate.
  new hvd.callbacks.LearningRateWarmupCallback({ initialLr: learningRate, warmupEpochs, verbose: 1 }),
  // Use a tenth of the rate in later epochs, and a hundredth in the last ones.
  new hvd.callbacks.LearningRateScheduleCallback({
    initialLr: learningRate,
    startEpoch: warmupEpochs,
    multiplier: (epoch) => (epoch < 0.6 * epochs ? 1 : epoch < 0.85 * epochs ? 0.1 : 0.01),
  }),
];
if (checkpoints !== undefined) {
  const filepath = join(checkpoints, 'best');
  callbacks.push(
    new hvd.callbacks.BestModelCheckpoint({ filepath, monitor: 'val_acc', mode: 'max' }),
    new SaveEveryEpoch(),
  );
}
if (logDir !== undefined) callbacks.push(new hvd.callbacks.TensorBoard(logDir));
callbacks.push(new hvd.callbacks.ProgressCallback());

const { history } = await model.fitDataset(augmentedBatches(), {
  batchesPerEpoch: stepsPerEpoch,
  epochs,
  initialEpoch: startEpoch,
  verbose: 0, // otherwise tfjs-node draws a progress bar on every rank
  validationData: [
    tf.tensor4d(testing.images, [testing.count, imageSize, imageSize, 1]),
    tf.tensor1d(Float32Array.from(testing.labels)),
  ],
  validationBatchSize: 500,
  callbacks,
});

const accuracy = history['val_acc']?.at(-1);
if (isLeader) {
  console.log(
    accuracy === undefined
      ? `Nothing to do: ${startEpoch} of ${epochs} epochs are done.`
      : `test accuracy ${(100 * (accuracy as number)).toFixed(2)} %`,
  );
}
await hvd.shutdown();

function createCompiledModel(): tf.LayersModel {
  const layers = [
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
    tf.layers.dropout({ rate: 0.25 }),
    tf.layers.dense({ units: classes, activation: 'softmax' }),
  ];
  const created = tf.sequential({ layers });
  created.compile({
    optimizer: hvd.DistributedOptimizer(tf.train.adam(learningRate)),
    loss: 'sparseCategoricalCrossentropy',
    metrics: ['accuracy'],
  });
  return created;
}

/** Endless batches of augmented images in random order. fitDataset() takes batchesPerEpoch of them. */
function augmentedBatches(): tf.data.Dataset<tf.TensorContainer> {
  const change = { degrees: 8, shift: 0.08, zoom: 0.08 };
  function* batches(): Generator<tf.TensorContainer> {
    for (;;) {
      const order = tf.util.createShuffledIndices(training.count);
      for (let first = 0; first + batchSize <= training.count; first += batchSize) {
        const images = new Float32Array(batchSize * pixels);
        const labels = new Float32Array(batchSize);
        for (let i = 0; i < batchSize; i++) {
          const index = order[first + i] as number;
          const from = training.images.subarray(index * pixels, (index + 1) * pixels);
          augment(from, images.subarray(i * pixels, (i + 1) * pixels), imageSize, change, Math.random);
          labels[i] = training.labels[index] as number;
        }
        yield {
          xs: tf.tensor4d(images, [batchSize, imageSize, imageSize, 1]),
          ys: tf.tensor1d(labels),
        };
      }
    }
  }
  return tf.data.generator(batches);
}

function checkpointOf(epoch: number | string): string {
  return join(checkpoints as string, `epoch-${epoch}`);
}
