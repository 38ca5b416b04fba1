// MNIST with jax-js: two dense layers, written as a function of their parameters. Every rank trains on its share of the
// images. The numbers ① to ⑤ mark what makes the script distributed; the rest is the same as for one process.
//
//   npx horovodrun -np 2 examples/jax/mnist.ts
//   npx horovodrun -np 2 examples/jax/mnist.ts --epochs 1 --steps 20     a quick try: 20 batches
//
// In jax-js a function consumes the arrays that you pass to it. To keep an array, pass `x.ref`, or `tree.ref(params)` for
// a tree. The functions of horovod/jax follow the same rule.

import { type Array as JaxArray, jit, nn, numpy as np, random, tree, valueAndGrad } from '@jax-js/jax';
import * as hvd from 'horovod/jax';
import { readOptions, wholeNumber } from '../command-line.ts';
import { classes, type Digits, loadMnist, pixels } from '../data/mnist.ts';

const usage = `horovodrun -np <ranks> examples/jax/mnist.ts [options]

  --epochs <n>       number of epochs (default: 3)
  --batch-size <n>   images per batch on each rank (default: 64)
  --steps <n>        batches per epoch (default: all images)`;

const options = readOptions(usage, {
  epochs: { type: 'string', default: '3' },
  'batch-size': { type: 'string', default: '64' },
  steps: { type: 'string' },
});
const epochs = wholeNumber('--epochs', options.epochs);
const batchSize = wholeNumber('--batch-size', options['batch-size']);

// A type, not an interface: jax-js expects trees, which may have any keys.
type Params = { hidden: Layer; output: Layer };
type Layer = { weights: JaxArray; bias: JaxArray };

await hvd.init(); // ① find the other ranks
await hvd.setDevice('wasm');
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

// ③ start from rank 0's parameters
let params = await hvd.broadcastParameters(makeParams(Math.floor(Math.random() * 2 ** 31)), 0);

// ④ Average the gradients over all ranks before the optimizer uses them. You can jit the inner optimizer, but not the
//    distributed one, because it waits for other ranks. ⑤ Scale the learning rate: an update uses the images of all ranks.
const adam = hvd.adam<Params>(0.001 * hvd.size());
const optimizer = hvd.DistributedOptimizer({ init: adam.init, update: jit(adam.update) });
let state = optimizer.init(tree.ref(params));

const lossAndGradients = jit(valueAndGrad(loss));
const apply = jit(hvd.applyUpdates<Params>);
const predict = jit((parameters: Params, images: JaxArray) => np.argmax(logits(parameters, images), -1));

say(`${hvd.size()} rank(s), ${stepsPerEpoch} steps per epoch, transport: ${hvd.transportName()}`);
for (let epoch = 0; epoch < epochs; epoch++) {
  const order = shuffled(training.count);
  let [reportedAt, reportedStep] = [performance.now(), 0];
  for (let step = 1; step <= stepsPerEpoch; step++) {
    const [images, labels] = takeBatch(training, order, (step - 1) * batchSize);
    const [value, gradients] = lossAndGradients(tree.ref(params), images, labels);
    const [updates, next] = optimizer.update(gradients, state, tree.ref(params));
    [params, state] = [apply(params, updates), next];
    const shown = value.item();
    if (step % 50 === 0 || step === stepsPerEpoch) {
      const seconds = (performance.now() - reportedAt) / 1000;
      const rate = (hvd.size() * batchSize * (step - reportedStep)) / seconds;
      say(`Epoch ${epoch + 1} step #${step}\tLoss: ${shown.toFixed(6)}\t${rate.toFixed(0)} samples/s`);
      [reportedAt, reportedStep] = [performance.now(), step];
    }
  }
}

// Plain numbers in a tree are reduced too.
const { correct, tested } = hvd.allreduceSync(test(testing), { op: hvd.Sum });
say(`test accuracy ${((100 * correct) / tested).toFixed(2)} % of ${tested} images`);
await hvd.shutdown();

function makeParams(seed: number): Params {
  const [first, second] = random.split(random.key(seed), 2);
  return {
    hidden: makeLayer(first as JaxArray, pixels, 128),
    output: makeLayer(second as JaxArray, 128, classes),
  };
}

/** Random weights that preserve the variance of their inputs. */
function makeLayer(key: JaxArray, inputs: number, outputs: number): Layer {
  const weights = random.normal(key, [inputs, outputs]).mul(Math.sqrt(2 / inputs));
  return { weights, bias: np.zeros([outputs]) };
}

function logits({ hidden, output }: Params, images: JaxArray): JaxArray {
  const between = nn.relu(np.matmul(images, hidden.weights).add(hidden.bias));
  return np.matmul(between, output.weights).add(output.bias);
}

/** Mean cross-entropy; `labels` are one-hot. */
function loss(parameters: Params, images: JaxArray, labels: JaxArray): JaxArray {
  const logProbabilities = nn.logSoftmax(logits(parameters, images));
  return np.mean(logProbabilities.mul(labels).sum(-1)).neg();
}

function takeBatch(digits: Digits, order: Uint32Array, first: number): [JaxArray, JaxArray] {
  const images = new Float32Array(batchSize * pixels);
  const labels = new Float32Array(batchSize * classes);
  for (let i = 0; i < batchSize; i++) {
    const image = order[(first + i) % order.length] as number;
    images.set(digits.images.subarray(image * pixels, (image + 1) * pixels), i * pixels);
    labels[i * classes + (digits.labels[image] as number)] = 1;
  }
  return [
    np.array(images, { shape: [batchSize, pixels] }),
    np.array(labels, { shape: [batchSize, classes] }),
  ];
}

function test({ count, images, labels }: Digits): { correct: number; tested: number } {
  const atOnce = 500;
  let [correct, tested] = [0, 0];
  for (let first = 0; first < count; first += atOnce) {
    const length = Math.min(atOnce, count - first); // the last part may be shorter
    const part = images.slice(first * pixels, (first + length) * pixels);
    const likeliest = predict(tree.ref(params), np.array(part, { shape: [length, pixels] })).dataSync();
    for (let i = 0; i < length; i++) if (likeliest[i] === labels[first + i]) correct++;
    tested += likeliest.length;
  }
  return { correct, tested };
}

/** The numbers from 0 to count - 1 in random order (Fisher-Yates). */
function shuffled(count: number): Uint32Array {
  const order = Uint32Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const other = Math.floor(Math.random() * (i + 1));
    [order[i], order[other]] = [order[other] as number, order[i] as number];
  }
  return order;
}
