// Elastic training with a loop of your own: kill a rank, and the others go on; start it again, and it joins. A classifier of points
// on two spirals. The numbers ① to ④ mark what makes the script elastic.
//
//   npx horovodrun -np 3 --min-np 1 examples/elastic/custom-loop.ts            then: kill -9 one of the pids it prints
//   npx horovodrun -np 3 --min-np 1 examples/elastic/custom-loop.ts --lose 50  rank 1 ends itself after 50 steps

import * as tf from '@tensorflow/tfjs';
import * as hvd from 'horovod/tensorflow';
import { readOptions, wholeNumber } from '../command-line.ts';

const samples = 6000;
const classes = 2;

const usage = `horovodrun -np <ranks> --min-np <ranks> examples/elastic/custom-loop.ts [options]

  --epochs <n>   number of epochs (default: 12)
  --lose <n>     rank 1 kills itself after this many steps, once

Trains a classifier of two spirals; the number of ranks may change while it does.`;

const options = readOptions(usage, {
  epochs: { type: 'string', default: '12' },
  lose: { type: 'string' },
});
const epochs = wholeNumber('--epochs', options.epochs);
const loseAfter = options.lose === undefined ? undefined : wholeNumber('--lose', options.lose);

await hvd.init();
await hvd.setBackend('cpu');

const { x, y } = spirals();
const model = tf.sequential({
  layers: [
    tf.layers.dense({ inputShape: [2], units: 32, activation: 'tanh' }),
    tf.layers.dense({ units: 32, activation: 'tanh' }),
    tf.layers.dense({ units: classes }),
  ],
});
const variables = model.trainableWeights.map((weight) => weight.read() as tf.Variable);
const optimizer = hvd.DistributedOptimizer(tf.train.adam(0.01));

// ① Deal the samples so that each is used once per epoch, although the number of ranks changes. The batch of all ranks together stays
// the same, and so does the learning rate.
const sampler = new hvd.elastic.ElasticSampler({
  length: samples,
  globalBatchSize: 120,
  seed: 7,
  uneven: 'exact',
});

// ② Everything that must survive: the job goes back to the last commit() when it loses ranks.
const state = new hvd.elastic.TensorFlowState({ variables, optimizer, epoch: 0, seen: 0, sampler });
state.onReset(({ rank, size, lost, joined }) => {
  if (rank === 0) console.log(`now ${size} rank(s); ${lost.length} lost, ${joined.length} new`);
});

// ③ The training function is called again after every change of the ranks, with the state of the last commit.
const accuracy = await hvd.elastic.run(async (state) => {
  console.log(
    `rank ${hvd.rank()} of ${hvd.size()}, pid ${process.pid}, from sample ${state.sampler.position} of epoch ${state.epoch}`,
  );
  for (; state.epoch < epochs; state.sampler.setEpoch(++state.epoch)) {
    for (const batch of state.sampler.batches()) {
      const { x: points, y: labels } = batch.take({ x, y });
      optimizer.minimize(
        () => {
          const loss = tf.losses.softmaxCrossEntropy(labels, model.apply(points) as tf.Tensor) as tf.Scalar;
          // Ranks may have different numbers of samples: the weight makes the average over the ranks that over all samples.
          return loss.mul(batch.weight) as tf.Scalar;
        },
        false,
        variables,
      );
      tf.dispose([points, labels]);
      state.sampler.record(batch);
      state.seen += batch.globalSize;
      state.commitSync(); // ④ A commit costs microseconds: variables are not copied.
      if (state.commits === loseAfter && hvd.rank() === 1 && hvd.elastic.generation() === 1)
        process.kill(process.pid, 'SIGKILL');
    }
  }
  return tf.tidy(() => {
    const isRight = tf.equal(tf.argMax(model.predict(x) as tf.Tensor, 1), tf.argMax(y, 1));
    return isRight.mean().dataSync()[0] as number;
  });
}, state);

if (hvd.rank() === 0) {
  console.log(`${state.seen} samples in ${state.epoch} epochs, ${hvd.elastic.generation()} generation(s)`);
  console.log(`accuracy ${(100 * accuracy).toFixed(2)} %`);
}
await hvd.shutdown();
if (state.seen !== samples * epochs) process.exitCode = 1;

/** The same points on every rank. */
function spirals(): { x: tf.Tensor2D; y: tf.Tensor2D } {
  const noise = tf.randomNormal([samples, 2], 0, 0.05, 'float32', 11);
  const points = Float32Array.from({ length: 2 * samples }, (_, i) => {
    const sample = i >> 1;
    const turn = ((sample >> 1) / samples) * 4 * Math.PI;
    const angle = turn + (sample % 2) * Math.PI;
    return (0.2 + turn / 6) * (i % 2 === 0 ? Math.cos(angle) : Math.sin(angle));
  });
  const x = tf.tidy(() => tf.tensor2d(points, [samples, 2]).add(noise) as tf.Tensor2D);
  noise.dispose();
  const labels = tf.tensor1d(
    Int32Array.from({ length: samples }, (_, sample) => sample % 2),
    'int32',
  );
  const y = tf.oneHot(labels, classes).toFloat() as tf.Tensor2D;
  labels.dispose();
  return { x, y };
}
