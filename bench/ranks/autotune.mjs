// One rank of a job with autotune: trains until tuning is over, and rank 0 prints the outcome as a JSON line:
//   { workload, usual, chosen, beforeMs, afterMs, gain, noise, isBetter, samples, steps, seconds }
// `gain` is the share of a step that is saved; what is not above `noise` may be chance, and then the usual settings stay.
//
//   horovodrun --autotune -np 2 -H host1:1,host2:1 node bench/ranks/autotune.mjs [workload]
//
//   optimizer     a DistributedOptimizer over a small multilayer perceptron (3.4 MB of gradients)
//   compression   the same, where autotune may also choose fp16 for the gradients
//   promises      a hand-written loop: 32 tensors of 96 KiB, started as "backpropagation" goes on, awaited at the end
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const [workload = 'optimizer'] = process.argv.slice(2);
const directory = mkdtempSync(path.join(tmpdir(), 'horovod-bench-autotune-'));
process.env.HOROVOD_AUTOTUNE = '1';
process.env.HOROVOD_AUTOTUNE_FILE = path.join(directory, 'result.json');
process.env.HOROVOD_AUTOTUNE_LOG = path.join(directory, 'log.csv');

const hvd = await import('../../dist/index.js');
const { defaultContext } = await import('../../dist/context/default/default-context.js');
await hvd.init();

const step = workload === 'promises' ? promisesStep() : await optimizerStep(workload === 'compression');
const startedAt = performance.now();
const usual = settings();
let steps = 0;
// Long enough for every sample; a job that cannot agree would never end otherwise.
while (steps < 2000 && !(await isOver())) {
  for (let i = 0; i < 11; i++, steps++) await step(steps);
}
if (hvd.rank() === 0) {
  const { comparison } = JSON.parse(readFileSync(process.env.HOROVOD_AUTOTUNE_FILE, 'utf8'));
  const searched = rowsOfLog().filter((row) => row.startsWith('searching,'));
  const usualMs = Number(searched[0].split(',').at(-2));
  const seconds = (performance.now() - startedAt) / 1000;
  console.log(
    JSON.stringify({
      workload,
      transport: hvd.transportName(),
      ranks: hvd.size(),
      usual,
      chosen: settings(),
      beforeMs: comparison?.beforeMs ?? usualMs,
      afterMs: comparison?.isBetter ? comparison.afterMs : (comparison?.beforeMs ?? usualMs),
      gain: comparison?.gain ?? 0,
      noise: comparison?.noise,
      isBetter: comparison?.isBetter ?? false,
      samples: searched.length,
      steps,
      seconds,
    }),
  );
}
await hvd.shutdown();
rmSync(directory, { recursive: true, force: true });
process.exit(); // threads of the wasm backend would keep the process

function settings() {
  const { fusionThresholdBytes, cycleTimeMs, overlap, bucketBytes, compression } = defaultContext().tuned;
  return { fusionThresholdBytes, cycleTimeMs, overlap, bucketBytes, compression };
}

/** The log has its last row. */
async function isOver() {
  const hasEnded = hvd.rank() === 0 && rowsOfLog().at(-1)?.startsWith('chosen');
  return hvd.broadcastObject(hasEnded === true, 0);
}

function rowsOfLog() {
  const file = process.env.HOROVOD_AUTOTUNE_LOG;
  return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [];
}

async function optimizerStep(mayCompress) {
  const tf = await import('@tensorflow/tfjs');
  const { DistributedOptimizer, setBackend } = await import('../../dist/tensorflow.js');
  await setBackend('wasm').catch(() => tf.setBackend('cpu'));
  const sizes = [512, 640, 640, 192, 10];
  const layers = sizes.slice(1).map((units, i) => ({
    kernel: tf.variable(tf.randomNormal([sizes[i], units], 0, 0.05, 'float32', i + 1)),
    bias: tf.variable(tf.zeros([units])),
  }));
  const images = tf.randomNormal([16, 512], 0, 1, 'float32', 7);
  const labels = tf.oneHot(tf.range(0, 16, 1, 'int32').mod(10).toInt(), 10).toFloat();
  const { auto, none, fp16 } = hvd.Compression;
  const optimizer = DistributedOptimizer(tf.train.sgd(0.01), {
    compression: mayCompress ? auto([none, fp16]) : none,
  });
  const loss = () =>
    tf.tidy(() => {
      const logits = layers.reduce((x, { kernel, bias }, i) => {
        const y = x.matMul(kernel).add(bias);
        return i + 1 < layers.length ? y.relu() : y;
      }, images);
      return tf.losses.softmaxCrossEntropy(labels, logits);
    });
  return async () => void optimizer.minimize(loss);
}

function promisesStep() {
  const gradients = Array.from({ length: 32 }, (_, i) => new Float32Array(24 * 1024).fill(i));
  return async () => {
    const reduced = [];
    for (const [i, gradient] of gradients.entries()) {
      for (const until = performance.now() + 0.3; performance.now() < until; );
      reduced.push(hvd.allreduce(gradient, { name: `gradient ${i}` }));
      await new Promise(setImmediate);
    }
    await Promise.all(reduced);
    hvd.markStep();
  };
}
