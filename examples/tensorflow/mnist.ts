// MNIST with a custom training loop. The network uses TensorFlow.js operations, a DistributedGradientTape computes the
// gradients, and the loop applies them. The numbers ① to ⑤ mark what makes the script distributed.
//
//   npx horovodrun -np 2 examples/tensorflow/mnist.ts
//   npx horovodrun -np 2 examples/tensorflow/mnist.ts --steps 20     a quick try: 20 batches

import * as tf from '@tensorflow/tfjs';
import * as hvd from 'horovod/tensorflow';
import { backends, oneOf, readOptions, wholeNumber } from '../command-line.ts';
import { classes, type Digits, imageSize, loadMnist, pixels } from '../data/mnist.ts';

const usage = `horovodrun -np <ranks> examples/tensorflow/mnist.ts [options]

  --epochs <n>       number of epochs (default: 2)
  --batch-size <n>   images per batch on each rank (default: 64)
  --steps <n>        batches per epoch (default: all images)
  --backend <name>   ${backends.join(', ')} (default: auto)`;

const options = readOptions(usage, {
  epochs: { type: 'string', default: '2' },
  'batch-size': { type: 'string', default: '64' },
  steps: { type: 'string' },
  backend: { type: 'string', default: 'auto' },
});

const epochs = wholeNumber('--epochs', options.epochs);
const batchSize = wholeNumber('--batch-size', options['batch-size']);

await hvd.init(); // ① find the other ranks
const backend = await hvd.setBackend(oneOf('--backend', options.backend, backends));
const say = (text: string): void => {
  if (hvd.rank() === 0) console.log(text);
};

const share = { rank: hvd.rank(), size: hvd.size() }; // ② take this rank's share of the images
const training = loadMnist('train', share);
const testing = loadMnist('test', share);
const stepsPerEpoch =
  options.steps === undefined
    ? Math.floor(training.count / batchSize)
    : wholeNumber('--steps', options.steps);

const kernel1 = randomVariable<tf.Rank.R4>([5, 5, 1, 8], 25);
const bias1 = tf.variable(tf.zeros<tf.Rank.R1>([8]));
const kernel2 = randomVariable<tf.Rank.R4>([5, 5, 8, 16], 200);
const bias2 = tf.variable(tf.zeros<tf.Rank.R1>([16]));
const kernel3 = randomVariable<tf.Rank.R2>([256, 64], 256);
const bias3 = tf.variable(tf.zeros<tf.Rank.R1>([64]));
const kernel4 = randomVariable<tf.Rank.R2>([64, classes], 64);
const bias4 = tf.variable(tf.zeros<tf.Rank.R1>([classes]));
const variables: tf.Variable[] = [kernel1, bias1, kernel2, bias2, kernel3, bias3, kernel4, bias4];

await hvd.broadcastVariables(variables, 0); // ③ start from rank 0's weights

const tape = new hvd.DistributedGradientTape(); // ④ averages the gradients over all ranks
const optimizer = tf.train.adam(0.001 * hvd.size()); // ⑤ an update uses the images of all ranks

say(
  `${hvd.size()} rank(s), ${stepsPerEpoch} steps per epoch, backend: ${backend}, transport: ${hvd.transportName()}`,
);
for (let epoch = 0; epoch < epochs; epoch++) {
  const order = tf.util.createShuffledIndices(training.count);
  let [reportedAt, reportedStep] = [performance.now(), 0];
  for (let step = 1; step <= stepsPerEpoch; step++) {
    const [images, labels] = takeBatch(training, order, (step - 1) * batchSize);
    const { value: loss, grads } = await tape.gradient(
      () => tf.losses.softmaxCrossEntropy<tf.Tensor2D, tf.Scalar>(labels, logits(images)),
      variables,
    );
    // The cast is needed because the declared type expects variables, although it also takes tensors.
    optimizer.applyGradients(grads as Parameters<typeof optimizer.applyGradients>[0]);
    if (step % 50 === 0 || step === stepsPerEpoch) {
      const seconds = (performance.now() - reportedAt) / 1000;
      const rate = (hvd.size() * batchSize * (step - reportedStep)) / seconds;
      say(
        `Epoch ${epoch + 1} step #${step}\tLoss: ${loss.dataSync()[0]?.toFixed(6)}\t${rate.toFixed(0)} samples/s`,
      );
      [reportedAt, reportedStep] = [performance.now(), step];
    }
    tf.dispose([images, labels, loss, grads]);
  }
}

const counts = hvd.allreduceSync(Int32Array.of(countCorrect(testing), testing.count), { op: hvd.Sum });
const [correct, tested] = counts as unknown as [number, number];
say(`test accuracy ${((100 * correct) / tested).toFixed(2)} % of ${tested} images`);
await hvd.shutdown();

function logits(images: tf.Tensor4D): tf.Tensor2D {
  const one = tf.relu(tf.conv2d(images, kernel1, 1, 'valid').add<tf.Tensor4D>(bias1));
  const two = tf.relu(tf.conv2d(tf.maxPool(one, 2, 2, 'valid'), kernel2, 1, 'valid').add<tf.Tensor4D>(bias2));
  const flat = tf.maxPool(two, 2, 2, 'valid').reshape<tf.Tensor2D>([images.shape[0], 256]);
  return tf
    .relu(flat.matMul<tf.Tensor2D>(kernel3).add<tf.Tensor2D>(bias3))
    .matMul<tf.Tensor2D>(kernel4)
    .add(bias4);
}

/** Random values that preserve the variance of the inputs. */
function randomVariable<R extends tf.Rank>(shape: tf.ShapeMap[R], inputs: number): tf.Variable<R> {
  return tf.variable(tf.randomNormal<R>(shape, 0, Math.sqrt(2 / inputs)));
}

function takeBatch(digits: Digits, order: Uint32Array, first: number): [tf.Tensor4D, tf.Tensor2D] {
  const images = new Float32Array(batchSize * pixels);
  const labels = new Int32Array(batchSize);
  for (let i = 0; i < batchSize; i++) {
    const index = order[(first + i) % order.length] as number;
    images.set(digits.images.subarray(index * pixels, (index + 1) * pixels), i * pixels);
    labels[i] = digits.labels[index] as number;
  }
  return [
    tf.tensor4d(images, [batchSize, imageSize, imageSize, 1]),
    tf.tidy(() => tf.oneHot(tf.tensor1d(labels, 'int32'), classes).toFloat() as tf.Tensor2D),
  ];
}

function countCorrect({ count, images, labels }: Digits): number {
  const atOnce = 500;
  let correct = 0;
  for (let first = 0; first < count; first += atOnce) {
    const end = Math.min(first + atOnce, count);
    const likeliest = tf.tidy(() => {
      const part = images.subarray(first * pixels, end * pixels);
      return logits(tf.tensor4d(part, [end - first, imageSize, imageSize, 1])).argMax(1);
    });
    likeliest.dataSync().forEach((digit, i) => {
      if (digit === labels[first + i]) correct++;
    });
    likeliest.dispose();
  }
  return correct;
}
