// Data-parallel training in plain TypeScript, without a framework. Every rank trains the same network on its share of
// the images, and after each batch the ranks average their gradients. The numbers ① to ⑤ mark the lines that make the
// script distributed. Without them, it is an ordinary training script.
//
//   npx horovodrun -np 2 examples/core/train-mlp.ts              two ranks
//   npx horovodrun -np 4 examples/core/train-mlp.ts --epochs 3   four ranks, three epochs

import { createHash } from 'node:crypto';
import * as hvd from 'horovod';
import { readOptions, wholeNumber } from '../command-line.ts';
import { drawDigits, pixels } from './digits.ts';
import { backward, countCorrect, createNetwork, createWorkspace, forward, update } from './mlp.ts';

const testSamples = 4_000;
const batchSize = 64; // of all ranks together, so the number of ranks does not change the training
const hidden = 128;

const usage = `horovodrun -np <ranks> examples/core/train-mlp.ts [options]

  --epochs <n>    number of epochs (default: 6)
  --samples <n>   number of training images (default: 24000)

Trains a two-layer network to recognize drawn digits (${pixels} pixels) and prints its accuracy on ${testSamples} test images.`;

const options = readOptions(usage, {
  epochs: { type: 'string', default: '6' },
  samples: { type: 'string', default: '24000' },
});
const epochs = wholeNumber('--epochs', options.epochs);
const trainingSamples = wholeNumber('--samples', options.samples, batchSize);

await hvd.init(); // ① find the other ranks
const [rank, size] = [hvd.rank(), hvd.size()];
const isLeader = rank === 0;
const ranks = size === 1 ? '1 rank' : `${size} ranks`;
const say = (text: string): void => {
  if (isLeader) console.log(text);
};
const transport = hvd.transportName();
say(
  `${ranks}, transport: ${transport}; drawing ${trainingSamples} training and ${testSamples} test images …`,
);

const startedAt = performance.now();
const training = drawDigits(Math.floor(trainingSamples / size), rank, size); // ② every rank takes its share
const testing = drawDigits(Math.floor(testSamples / size), trainingSamples + rank, size);

// Every rank starts with different weights on purpose. The broadcast makes them equal.
const network = createNetwork(hidden, rank);
for (const weights of network.weights) hvd.broadcastSync(weights, 0, { inPlace: true }); // ③ start from the same weights

const gradients = network.weights.map((weights) => hvd.alloc(weights.length).data as Float32Array);
const averageGradients = await hvd.prepareAllreduce(gradients, { op: hvd.Average, name: 'gradients' });

const velocities = network.weights.map((weights) => new Float32Array(weights.length));
const batch = Math.max(1, Math.floor(batchSize / size));
const space = createWorkspace(network, batch);
const steps = Math.floor(training.count / batch);
const trainingStartedAt = performance.now();

for (let epoch = 1; epoch <= epochs; epoch++) {
  const epochStartedAt = performance.now();
  // Decrease the learning rate from epoch to epoch.
  const rate = 0.05 * (1 - (epoch - 1) / epochs) + 0.002;
  let lossSum = 0;
  for (let step = 0; step < steps; step++) {
    const images = training.images.subarray(step * batch * pixels, (step + 1) * batch * pixels);
    const labels = training.labels.subarray(step * batch, (step + 1) * batch);
    forward(network, images, batch, space);
    lossSum += backward(network, images, labels, batch, space, gradients);
    averageGradients.runSync(); // ④ average the gradients of all ranks, in place
    update(network, gradients, velocities, rate);
    showBar(epoch, (step + 1) / steps);
  }

  const correct = countCorrect(network, testing.images, testing.labels, testing.count);
  const [loss, accuracy] = hvd.allreduceSync(Float64Array.of(lossSum / steps, correct / testing.count)); // ⑤ average the metrics
  const seconds = (performance.now() - epochStartedAt) / 1000;
  const remaining = (((performance.now() - trainingStartedAt) / 1000) * (epochs - epoch)) / epoch;
  say(
    `epoch ${String(epoch).padStart(2)}/${epochs}  loss ${(loss as number).toFixed(4)}  ` +
      `test accuracy ${percent(accuracy as number)}  ${Math.round((steps * batch * size) / seconds)} samples/s  ` +
      `${epoch < epochs ? `about ${remaining.toFixed(0)} s left` : 'done'}`,
  );
}

averageGradients.release();
const trainingSeconds = (performance.now() - trainingStartedAt) / 1000;
const [correct, tested] = hvd.allreduceSync(
  Int32Array.of(countCorrect(network, testing.images, testing.labels, testing.count), testing.count),
  { op: hvd.Sum },
);

// All ranks started equal and applied the same gradients, so their weights must be equal, bit for bit.
const checksums = hvd.allgatherSync(Int32Array.of(checksum(network.weights)));
const areEqual = checksums.every((each) => each === checksums[0]);

say(`
test accuracy   ${percent((correct as number) / (tested as number))} of ${tested} test images
training        ${trainingSeconds.toFixed(1)} s, ${Math.round((epochs * steps * batch * size) / trainingSeconds)} samples/s on ${ranks}
total           ${((performance.now() - startedAt) / 1000).toFixed(1)} s, transport: ${transport}
weights         ${areEqual ? `same weights on all ${ranks}` : `DIFFERENT: checksums ${checksums.join(', ')}`}`);
await hvd.shutdown();
if (!areEqual) throw new Error('The ranks ended with different weights.');

function percent(share: number): string {
  return `${(100 * share).toFixed(2)} %`;
}

function checksum(arrays: readonly Float32Array[]): number {
  const hash = createHash('sha256');
  for (const array of arrays) hash.update(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
  return hash.digest().readInt32LE(0);
}

/** Shows a progress bar on a terminal, and nothing in a log. (With horovod/keras, ProgressCallback does it.) */
function showBar(epoch: number, share: number): void {
  if (!isLeader || !process.stdout.isTTY) return;
  const width = 30;
  const filled = Math.round(share * width);
  process.stdout.write(
    `\repoch ${epoch} [${'='.repeat(filled)}${' '.repeat(width - filled)}]${share === 1 ? '\r\x1b[K' : ''}`,
  );
}
