// One rank of the bench of the timeline's cost: the same work again and again with the timeline off and on by turns, so
// that whatever else the machine does meets both alike. Rank 0 prints one JSON line:
//   { workload, offUs, onUs, cost, cpuCost, units, windows, fileBytes }   medians of a unit of work in microseconds; 0.01 is 1 %
//
//   horovodrun -np 2 bench/ranks/timeline-cost.mjs --workload allreduce|training [--windows 11] [--units N] [--library URL]
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

const { values: flags } = parseArgs({
  options: {
    workload: { type: 'string', default: 'allreduce' },
    windows: { type: 'string', default: '11' },
    units: { type: 'string' },
    bytes: { type: 'string', default: '65536' },
    library: { type: 'string' },
  },
});
const windows = Number(flags.windows);
const isTraining = flags.workload === 'training';
const units = Number(flags.units ?? (isTraining ? 20 : 60_000));

const hvd = await import(flags.library ?? (isTraining ? 'horovod/tensorflow' : 'horovod'));
await hvd.init();
const unit = isTraining ? await trainingStep() : allreduceOf(Number(flags.bytes));
const directory = mkdtempSync(join(tmpdir(), 'hvd-bench-'));
const file = join(directory, 'trace.json');
const times = { off: [], on: [] };
/** Of all threads of this rank, starting and stopping the timeline included: says more than time on a machine that is busy. */
const processor = { off: [], on: [] };
await run(Math.ceil(units / 2));
for (let window = 0; window < windows; window++) {
  // Which one comes first changes, so that neither profits from what the other has warmed up.
  for (const state of window % 2 === 0 ? ['off', 'on'] : ['on', 'off']) {
    const before = process.cpuUsage();
    if (state === 'on') await hvd.startTimeline(file);
    await hvd.barrier();
    times[state].push(await run(units));
    await hvd.barrier();
    if (state === 'on') await hvd.stopTimeline();
    const { user, system } = process.cpuUsage(before);
    processor[state].push((user + system) / units);
  }
}
if (hvd.rank() === 0) {
  const [offUs, onUs] = [median(times.off), median(times.on)];
  // Of pairs that were measured right after each other.
  const cost = median(times.on.map((on, i) => on / times.off[i] - 1));
  const cpuCost = median(processor.on) / median(processor.off) - 1;
  const fileBytes = statSync(file).size;
  console.log(
    JSON.stringify({ workload: flags.workload, offUs, onUs, cost, cpuCost, units, windows, fileBytes }),
  );
}
rmSync(directory, { recursive: true, force: true });
await hvd.shutdown();
process.exit(); // threads of the wasm backend would keep the process

async function run(count) {
  const began = performance.now();
  for (let i = 0; i < count; i++) await unit();
  return ((performance.now() - began) * 1000) / count;
}

function allreduceOf(bytes) {
  const data = new Float32Array(bytes / 4);
  return () => hvd.allreduceSync(data, { op: hvd.Sum, inPlace: true });
}

/** The convolutional network of examples/keras/mnist.ts on one batch of noise. */
async function trainingStep() {
  const tf = await import('@tensorflow/tfjs');
  await hvd.setBackend('wasm');
  const model = tf.sequential({
    layers: [
      tf.layers.conv2d({ inputShape: [28, 28, 1], filters: 32, kernelSize: 3, activation: 'relu' }),
      tf.layers.conv2d({ filters: 64, kernelSize: 3, activation: 'relu' }),
      tf.layers.maxPooling2d({ poolSize: 2 }),
      tf.layers.flatten(),
      tf.layers.dense({ units: 128, activation: 'relu' }),
      tf.layers.dense({ units: 10, activation: 'softmax' }),
    ],
  });
  const optimizer = hvd.DistributedOptimizer(tf.train.sgd(0.01));
  model.compile({ optimizer, loss: 'categoricalCrossentropy' });
  const inputs = tf.randomNormal([32, 28, 28, 1], 0, 1, 'float32', 7);
  const labels = tf.oneHot(tf.range(0, 32, 1, 'int32').mod(10).toInt(), 10).toFloat();
  return () => model.trainOnBatch(inputs, labels);
}

function median(values) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
}
