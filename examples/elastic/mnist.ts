// examples/keras/mnist.ts made elastic: handwritten digits with model.fit(), on as many ranks as there are. Kill a rank, and the others go on
// from the last commit. The numbers ① to ④ mark what makes it elastic.
//
//   npx horovodrun -np 2 --min-np 1 examples/elastic/mnist.ts                   two ranks, at least one
//   npx horovodrun -np 2 --min-np 1 examples/elastic/mnist.ts --images 2000     a quick try, without a target

import * as tf from '@tensorflow/tfjs';
import * as hvd from 'horovod/keras';
import { backends, oneOf, readOptions, wholeNumber } from '../command-line.ts';
import { classes, imageSize, loadMnist } from '../data/mnist.ts';

const targetPercent = 97;
const defaultEpochs = 3;

const usage = `horovodrun -np <ranks> --min-np <ranks> examples/elastic/mnist.ts [options]

  --epochs <n>       number of epochs (default: ${defaultEpochs})
  --batch-size <n>   images per batch, all ranks together (default: 128)
  --images <n>       number of training images (default: all)
  --backend <name>   ${backends.join(', ')} (default: auto)

Exits with code 1 if the test accuracy is below ${targetPercent} % after ${defaultEpochs} or more epochs of all images.`;

const options = readOptions(usage, {
  epochs: { type: 'string', default: String(defaultEpochs) },
  'batch-size': { type: 'string', default: '128' },
  images: { type: 'string' },
  backend: { type: 'string', default: 'auto' },
});
const epochs = wholeNumber('--epochs', options.epochs);
const limit = options.images === undefined ? undefined : wholeNumber('--images', options.images);

await hvd.init();
await hvd.setBackend(oneOf('--backend', options.backend, backends));

// ① All images on every rank: who takes which is decided in each step, by the ranks that there are.
const training = toTensors(loadMnist('train', limit === undefined ? {} : { limit }));
const testing = toTensors(loadMnist('test', limit === undefined ? {} : { limit }));
const sampler = new hvd.elastic.ElasticSampler({
  length: training.x.shape[0],
  globalBatchSize: wholeNumber('--batch-size', options['batch-size']),
});

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
const optimizer = hvd.DistributedOptimizer(tf.train.adam(0.002));
model.compile({ optimizer, loss: 'sparseCategoricalCrossentropy', metrics: ['accuracy'] });

// ② What must survive: the model, its optimizer, where in the data the job is.
const state = new hvd.elastic.KerasState({ model, epoch: 0, batch: 0, sampler });

// ③ Called again, with the state of the last commit, after every change of the ranks.
await hvd.elastic.run(async (state) => {
  if (hvd.rank() === 0) {
    console.log(`${hvd.size()} rank(s), epoch ${state.epoch + 1}, from image ${state.sampler.position}`);
  }
  while (state.epoch < epochs) {
    // This rank's images of what is left of the epoch.
    const { x, y } = state.sampler.tensors(training);
    try {
      await model.fit(x, y, {
        batchSize: state.sampler.batchSize,
        shuffle: false, // the sampler has done it
        initialEpoch: state.epoch,
        epochs: state.epoch + 1,
        verbose: 0,
        callbacks: [
          new hvd.callbacks.MetricAverageCallback(),
          new hvd.callbacks.ProgressCallback(),
          ...hvd.elastic.callbacks(state), // ④ count and commit, after every batch
        ],
      });
    } finally {
      tf.dispose([x, y]);
    }
  }
}, state);

const [, accuracy] = model.evaluate(testing.x, testing.y) as [tf.Scalar, tf.Scalar];
const percent = 100 * (accuracy.dataSync()[0] as number);
const isFullRun = limit === undefined && epochs >= defaultEpochs;
if (hvd.rank() === 0) {
  console.log(`test accuracy ${percent.toFixed(2)} %${isFullRun ? ` (target ${targetPercent} %)` : ''}`);
}
await hvd.shutdown();
if (isFullRun && percent < targetPercent) process.exitCode = 1;

function toTensors({ count, images, labels }: ReturnType<typeof loadMnist>): {
  x: tf.Tensor4D;
  y: tf.Tensor1D;
} {
  return {
    x: tf.tensor4d(images, [count, imageSize, imageSize, 1]),
    y: tf.tensor1d(Float32Array.from(labels), 'float32'),
  };
}
