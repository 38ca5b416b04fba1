// One process of `npm run bench:training`: trains a model on one synthetic batch, again and again, and prints
// `{"rate": images per second}` as a JSON line: the median of several windows of steps. With `--horovod` it is a rank under
// horovodrun and its optimizer is distributed; without, it never initialises Horovod and its optimizer is the plain one.
// `{"steadiness": …}` says how long steps take (p50, p90, p99) and how often V8 collects its young objects. `--timeline` adds, from a window of its own, where the time of a step goes.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import * as tf from '@tensorflow/tfjs';

const { values: flags } = parseArgs({
  options: {
    model: { type: 'string' },
    backend: { type: 'string' },
    optimizer: { type: 'string', default: 'sgd' },
    batch: { type: 'string', default: '64' },
    threads: { type: 'string', default: '1' },
    warmup: { type: 'string', default: '5' },
    steps: { type: 'string', default: '20' },
    windows: { type: 'string', default: '5' },
    horovod: { type: 'boolean', default: false },
    timeline: { type: 'boolean', default: false },
    /** Milliseconds since 1970: processes that must not measure alone begin together, and go on a while after. */
    at: { type: 'string' },
    library: { type: 'string' },
  },
});
const [batch, threads, warmup, steps, windows] = ['batch', 'threads', 'warmup', 'steps', 'windows'].map(
  (key) => Number(flags[key]),
);

const hvd = await import(flags.library);
if (flags.horovod) await hvd.init();
await useBackend(flags.backend);

const optimizer = { sgd: () => tf.train.sgd(0.01), adam: () => tf.train.adam(0.001) }[flags.optimizer]();
const model = buildModel(flags.model);
model.compile({
  optimizer: flags.horovod ? hvd.DistributedOptimizer(optimizer) : optimizer,
  loss: 'categoricalCrossentropy',
});
const inputs = tf.randomNormal([batch, ...model.inputs[0].shape.slice(1)], 0, 1, 'float32', 7);
const labels = tf.oneHot(tf.range(0, batch, 1, 'int32').mod(10).toInt(), 10).toFloat();

await train(warmup);
if (flags.at !== undefined) while (Date.now() < Number(flags.at)) await train(1);
const rates = [];
const stepMs = [];
let scavenges = 0;
const collections = new PerformanceObserver((list) => {
  for (const { detail } of list.getEntries())
    if (detail.kind === constants.NODE_PERFORMANCE_GC_MINOR) scavenges++;
});
collections.observe({ entryTypes: ['gc'] });
for (let window = 0; window < windows; window++) {
  const start = performance.now();
  await train(steps, stepMs);
  rates.push((steps * batch * 1000) / (performance.now() - start));
}
await new Promise((resolve) => setImmediate(resolve)); // the observer hears of the last collections
collections.disconnect();
if (flags.at !== undefined) await train(steps);
const rank = flags.horovod ? hvd.rank() : 0;
if (rank === 0)
  console.log(JSON.stringify({ rate: median(rates), steps: steps * windows, backend: tf.getBackend() }));
if (rank === 0) {
  const sorted = stepMs.sort((a, b) => a - b);
  const [p50, p90, p99] = [0.5, 0.9, 0.99].map((share) => sorted[Math.floor(share * (sorted.length - 1))]);
  const scavengesPer1000 = (1000 * scavenges) / sorted.length;
  console.log(JSON.stringify({ steadiness: { p50, p90, p99, scavengesPer1000 } }));
}
if (flags.timeline) {
  const timeline = await measureTimeline();
  if (rank === 0) console.log(JSON.stringify({ timeline }));
}
if (flags.horovod) await hvd.shutdown();
process.exit(); // threads of the wasm backend would keep the process

async function train(count, times) {
  for (let step = 0; step < count; step++) {
    const start = performance.now();
    await model.trainOnBatch(inputs, labels);
    times?.push(performance.now() - start);
  }
}

async function measureTimeline() {
  const phases = { forwardMs: [], backwardMs: [], exposedCommunicationMs: [], updateMs: [] };
  const listen = (times) => {
    for (const phase of Object.keys(phases)) phases[phase].push(times[phase]);
  };
  subscribe('horovod.tensorflow.step', listen);
  await train(steps);
  unsubscribe('horovod.tensorflow.step', listen);
  return Object.fromEntries(Object.entries(phases).map(([phase, ms]) => [phase, median(ms)]));
}

async function useBackend(name) {
  if (name !== 'wasm-stock') return await hvd.setBackend(name, { threads });
  // As its own documentation says, without Horovod's kernels.
  const wasm = await import('@tensorflow/tfjs-backend-wasm');
  const { createRequire } = await import('node:module');
  const { dirname, sep } = await import('node:path');
  const folder = dirname(createRequire(import.meta.url).resolve('@tensorflow/tfjs-backend-wasm'));
  wasm.setWasmPaths(folder + sep);
  await tf.setBackend('wasm');
}

function buildModel(name) {
  const { dense, conv2d, maxPooling2d, flatten } = tf.layers;
  const relu = 'relu';
  const layers = {
    mlp: () => [
      dense({ units: 512, activation: relu, inputShape: [784] }),
      dense({ units: 512, activation: relu }),
      dense({ units: 10, activation: 'softmax' }),
    ],
    cnn: () => [
      conv2d({ filters: 32, kernelSize: 3, activation: relu, inputShape: [28, 28, 1] }),
      conv2d({ filters: 64, kernelSize: 3, activation: relu }),
      maxPooling2d({ poolSize: 2 }),
      flatten(),
      dense({ units: 128, activation: relu }),
      dense({ units: 10, activation: 'softmax' }),
    ],
  }[name]();
  return tf.sequential({ layers });
}

function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}
