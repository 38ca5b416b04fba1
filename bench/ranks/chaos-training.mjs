// One worker of bench/chaos.mjs: trains one layer on synthetic data with a fixed global batch, one commit per step, for --steps
// steps, or until there is a file --until. It appends a line to a file of its own in --events for every step: its number and the samples of this rank.
// At the end it appends the loss over all samples, and how much is in memory and open.
import { appendFileSync, existsSync, readdirSync } from 'node:fs';
import { hostname } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import * as tf from '@tensorflow/tfjs';

const { values: flags } = parseArgs({
  options: {
    events: { type: 'string' },
    steps: { type: 'string' },
    until: { type: 'string' },
    library: { type: 'string', default: path.join(import.meta.dirname, '../../dist/tensorflow.js') },
  },
});
const SAMPLES = 4096;
const FEATURES = 64;
const GLOBAL_BATCH = 256;
const OUTPUTS = 256;
const steps = Number(flags.steps ?? Number.POSITIVE_INFINITY);
const LOOK_EVERY = 16;

const hvd = await import(pathToFileURL(flags.library).href);
await hvd.init();
await hvd.setBackend('wasm', { threads: 1 });
const file = path.join(flags.events, `${hostname()}-${process.pid}.jsonl`);
const say = (event) => appendFileSync(file, `${JSON.stringify(event)}\n`);

const x = tf.randomNormal([SAMPLES, FEATURES], 0, 1, 'float32', 11);
// The losses of two runs can be compared after any number of steps. With noise that cannot be learnt, they stay away from 0. With one layer,
// what was rounded differently, because the number of ranks was another one, does not grow from step to step.
const y = tf.tidy(() =>
  tf.add(
    tf.matMul(x, tf.randomNormal([FEATURES, OUTPUTS], 0, 0.2, 'float32', 13)),
    tf.randomNormal([SAMPLES, OUTPUTS], 0, 1, 'float32', 12),
  ),
);
const weights = [
  tf.variable(tf.randomNormal([FEATURES, OUTPUTS], 0, 0.1, 'float32', 1)),
  tf.variable(tf.zeros([OUTPUTS])),
];
const predict = (input) => tf.add(tf.matMul(input, weights[0]), weights[1]);
const meanLoss = (input, wanted) => tf.mean(tf.squaredDifference(predict(input), wanted)).asScalar();

const optimizer = hvd.DistributedOptimizer(tf.train.adam(1e-4));
const sampler = new hvd.elastic.ElasticSampler({
  length: SAMPLES,
  globalBatchSize: GLOBAL_BATCH,
  seed: 5,
  uneven: 'exact',
});
const state = new hvd.elastic.TensorFlowState({ variables: weights, optimizer, step: 0, epoch: 0, sampler });

await hvd.elastic.run(async () => {
  for (;;) {
    for (const batch of state.sampler.batches()) {
      if (state.step >= steps || isToldToStop()) return;
      // Before it counts anywhere: a rank that dies in the step has still said which samples it took.
      const { indices } = batch;
      say({
        step: state.step + 1,
        rank: hvd.rank(),
        generation: hvd.elastic.generation(),
        indices: [...indices],
      });
      const [input, wanted] = batch.take([x, y]);
      try {
        optimizer.minimize(() => tf.mul(meanLoss(input, wanted), batch.weight), false, weights);
      } finally {
        tf.dispose([input, wanted]);
      }
      state.sampler.record(batch);
      state.step++;
      state.commitSync();
      // Promises and timers of the library get their turn once a step.
      await new Promise(setImmediate);
    }
    state.sampler.setEpoch(++state.epoch);
  }
}, state);

/** All ranks stop at the same step: rank 0 looks for the file. */
function isToldToStop() {
  if (flags.until === undefined || state.step % LOOK_EVERY !== 0) return false;
  return hvd.broadcastObjectSync(existsSync(flags.until), 0);
}

const loss = tf.tidy(() => meanLoss(x, y).dataSync()[0]);
const { numTensors, numBytes } = tf.memory();
const descriptors = readdirSync('/proc/self/fd').length;
say({ end: true, rank: hvd.rank(), size: hvd.size(), loss, numTensors, numBytes, descriptors });
await hvd.shutdown();
process.exit(); // threads of the wasm backend would keep the process
