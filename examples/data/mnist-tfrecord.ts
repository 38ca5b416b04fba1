// Handwritten digits from TFRecord files. The ranks write the files first if they are missing. Then every rank reads its share,
// augments the images in threads, and trains a model with fitDataset(). The numbers ① to ④ mark what makes the script distributed.
//
//   npx horovodrun -np 2 examples/data/mnist-tfrecord.ts
//   npx horovodrun -np 2 examples/data/mnist-tfrecord.ts --images 2000 --epochs 1     a quick try

import * as tf from '@tensorflow/tfjs';
import { type Dataset, exported, FixedLenFeature, tfRecordDataset } from 'horovod/data';
import * as hvd from 'horovod/keras';
import { backends, oneOf, readOptions, wholeNumber } from '../command-line.ts';
import { classes, imageSize } from './mnist.ts';
import { writeMnist } from './mnist-files.ts';

const usage = `horovodrun -np <ranks> examples/data/mnist-tfrecord.ts [options]

  --folder <path>    where the TFRecord files are (default: mnist-tfrecord)
  --images <n>       write so many training images (default: 60000)
  --epochs <n>       number of epochs (default: 2)
  --batch-size <n>   images per batch on each rank (default: 64)
  --backend <name>   ${backends.join(', ')} (default: auto)`;

const options = readOptions(usage, {
  folder: { type: 'string', default: 'mnist-tfrecord' },
  images: { type: 'string', default: '60000' },
  epochs: { type: 'string', default: '2' },
  'batch-size': { type: 'string', default: '64' },
  backend: { type: 'string', default: 'auto' },
});
const { folder } = options;
const batchSize = wholeNumber('--batch-size', options['batch-size']);

await hvd.init(); // ① find the other ranks
const backend = await hvd.setBackend(oneOf('--backend', options.backend, backends));
const say = (text: string): void => {
  if (hvd.rank() === 0) console.log(text);
};

await writeMnist(folder, 'train', wholeNumber('--images', options.images));
await writeMnist(folder, 'test', 2000);

const features = {
  image: FixedLenFeature([imageSize, imageSize, 1], 'uint8'),
  label: FixedLenFeature([], 'int32'),
};
interface Digit {
  readonly image: hvd.Tensor;
  readonly label: hvd.Tensor;
}
// ② every rank reads its share, in another order in each epoch; functions of a module run in threads
const training = tfRecordDataset(`${folder}/train-*.tfrecord`, { shuffle: { seed: 1, pool: 10_000 } })
  .parseExample<Digit>(features)
  .map<Digit>(exported(new URL('./shift.ts', import.meta.url), 'shift', { pixels: 2 }))
  .batch(batchSize);
const testing = tfRecordDataset(`${folder}/test-*.tfrecord`, { uneven: 'drop' })
  .parseExample<Digit>(features)
  .batch(batchSize);

const model = tf.sequential({
  layers: [
    tf.layers.conv2d({
      inputShape: [imageSize, imageSize, 1],
      filters: 8,
      kernelSize: 5,
      strides: 2,
      activation: 'relu',
    }),
    tf.layers.conv2d({ filters: 16, kernelSize: 5, strides: 2, activation: 'relu' }),
    tf.layers.flatten(),
    tf.layers.dense({ units: 64, activation: 'relu' }),
    tf.layers.dense({ units: classes, activation: 'softmax' }),
  ],
});
model.compile({
  optimizer: hvd.DistributedOptimizer(tf.train.adam(0.001 * hvd.size())), // ③ averages gradients
  loss: 'sparseCategoricalCrossentropy',
  metrics: ['accuracy'],
});

say(`${hvd.size()} rank(s), backend: ${backend}, transport: ${hvd.transportName()}`);
await model.fitDataset(batches(training), {
  epochs: wholeNumber('--epochs', options.epochs),
  verbose: 0,
  callbacks: hvd.callbacks.list([
    hvd.callbacks.BroadcastGlobalVariablesCallback(0), // ④ start from rank 0's weights
    hvd.callbacks.MetricAverageCallback(),
  ]),
});
const { starvedShare } = training.metrics();
say(`the loop waited for data in ${(100 * starvedShare).toFixed(1)} % of the time`);

const [, accuracy] = (await model.evaluateDataset(batches(testing), {})) as tf.Scalar[];
const all = await hvd.allreduce(Float32Array.of((accuracy as tf.Scalar).dataSync()[0] as number));
say(`test accuracy ${(100 * (all[0] as number)).toFixed(2)} %`);
await hvd.shutdown();

/** Bytes become numbers from 0 to 1 here: as bytes they take a quarter of the memory on their way. */
function batches(dataset: Dataset<Digit>): tf.data.Dataset<{ xs: tf.Tensor; ys: tf.Tensor }> {
  return hvd.tensors(dataset).map(({ image, label }: { image: tf.Tensor; label: tf.Tensor }) => ({
    xs: tf.div(image, 255),
    ys: tf.cast(label, 'float32'),
  }));
}
