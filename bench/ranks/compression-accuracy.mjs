// One rank of the bench of accuracy: the network of examples/keras/mnist.ts learns MNIST with one compressor after the other, each time from
// the same weights and through the pictures in the same order. Rank 0 prints one JSON line a compressor:
//   { compressor, accuracy, loss, seconds, steps, receivedBytes }     accuracy in percent of the test pictures; bytes of one step
//
//   horovodrun -np 2 node bench/ranks/compression-accuracy.mjs [--compressors none,int8] [--epochs 4] [--steps 100]
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import * as tf from '@tensorflow/tfjs';
import { bytesReceived, chooseCompressor, compressorNames } from './compressor-choice.mjs';
import { loadDigits } from './mnist-digits.mjs';

const { values: flags } = parseArgs({
  options: {
    compressors: { type: 'string', default: compressorNames.join(',') },
    epochs: { type: 'string', default: '4' },
    /** Batches in an epoch; default: as many as there are pictures. */
    steps: { type: 'string' },
    backend: { type: 'string', default: 'auto' },
    library: { type: 'string', default: fileURLToPath(new URL('../../dist/index.js', import.meta.url)) },
  },
});
const hvd = await import(pathToFileURL(path.join(path.dirname(flags.library), 'keras.js')).href);
await hvd.init();
await hvd.setBackend(flags.backend);
const [rank, size, epochs, batchSize] = [hvd.rank(), hvd.size(), Number(flags.epochs), 64];

const limit = flags.steps === undefined ? undefined : Number(flags.steps) * batchSize;
const [images, labels] = toTensors(loadDigits('train', { rank, size, limit }));
const [testImages, testLabels] = toTensors(loadDigits('t10k', { rank, size }));

for (const name of flags.compressors.split(',')) {
  Math.random = seeded(1 + rank); // fit() shuffles with it
  const compression = chooseCompressor(hvd, name);
  const model = makeModel();
  const learningRate = 0.001 * size;
  const optimizer = hvd.DistributedOptimizer(tf.train.adam(learningRate), { compression });
  model.compile({ optimizer, loss: 'sparseCategoricalCrossentropy', metrics: ['accuracy'] });
  const startedAt = performance.now();
  const { history } = await model.fit(images, labels, {
    batchSize,
    epochs,
    verbose: 0,
    validationData: [testImages, testLabels],
    callbacks: [
      new hvd.callbacks.BroadcastGlobalVariablesCallback(0),
      new hvd.callbacks.MetricAverageCallback(),
      new hvd.callbacks.LearningRateScheduleCallback({
        initialLr: learningRate,
        multiplier: (epoch) => (epoch > 0 && epoch >= epochs - 1 ? 0.1 : 1),
      }),
    ],
  });
  const seconds = (performance.now() - startedAt) / 1000;
  const shapes = model.trainableWeights.map(({ shape }) => shape);
  if (rank === 0) {
    const figures = {
      accuracy: 100 * history.val_acc.at(-1),
      loss: history.val_loss.at(-1),
      seconds,
      steps: epochs * Math.ceil(images.shape[0] / batchSize),
      receivedBytes: await bytesReceived(compression, shapes, size),
    };
    console.log(JSON.stringify({ compressor: name, ...figures }));
  }
  optimizer.dispose();
  tf.dispose(model.weights.map((weight) => weight.read()));
}
await hvd.shutdown();
process.exit(); // threads of the wasm backend would keep the process

function makeModel() {
  const seed = (number) => ({ kernelInitializer: tf.initializers.glorotUniform({ seed: number }) });
  return tf.sequential({
    layers: [
      tf.layers.conv2d({
        inputShape: [28, 28, 1],
        filters: 8,
        kernelSize: 5,
        activation: 'relu',
        ...seed(1),
      }),
      tf.layers.maxPooling2d({ poolSize: 2 }),
      tf.layers.conv2d({ filters: 16, kernelSize: 5, activation: 'relu', ...seed(2) }),
      tf.layers.maxPooling2d({ poolSize: 2 }),
      tf.layers.flatten(),
      tf.layers.dense({ units: 64, activation: 'relu', ...seed(3) }),
      tf.layers.dense({ units: 10, activation: 'softmax', ...seed(4) }),
    ],
  });
}

function toTensors({ count, images, labels }) {
  return [tf.tensor4d(images, [count, 28, 28, 1]), tf.tensor1d(Float32Array.from(labels), 'float32')];
}

function seeded(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return (state >>> 0) / 2 ** 32;
  };
}
