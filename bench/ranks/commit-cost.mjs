// One worker of bench/recovery.mjs: trains an MLP with Adam in pairs of short windows, one with a commit after every step and one
// without, and prints as a JSON line the milliseconds of a step of both and the median difference within a pair, as time and as processor time
// of this rank, which a busy machine changes less; and the microseconds of a commit alone.
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import * as tf from '@tensorflow/tfjs';

const { values: flags } = parseArgs({
  options: {
    windows: { type: 'string', default: '100' },
    steps: { type: 'string', default: '4' },
    library: { type: 'string', default: path.join(import.meta.dirname, '../../dist/tensorflow.js') },
  },
});
const [windows, steps] = [Number(flags.windows), Number(flags.steps)];
/** Small: the shorter the step, the more a commit weighs in it. Most of the step is Adam, whose work does not depend on it. */
const batch = 8;

const hvd = await import(pathToFileURL(flags.library).href);
await hvd.init();
await hvd.setBackend('wasm', { threads: 1 });
const model = tf.sequential({
  layers: [
    tf.layers.dense({ units: 512, activation: 'relu', inputShape: [784] }),
    tf.layers.dense({ units: 512, activation: 'relu' }),
    tf.layers.dense({ units: 10, activation: 'softmax' }),
  ],
});
// So low that the model stays what it is. One that learned its few samples by heart would have gradients of 0, and with them averages in
// Adam too small for ordinary floats, with which processors compute many times slower.
const optimizer = hvd.DistributedOptimizer(tf.train.adam(1e-7));
model.compile({ optimizer, loss: 'categoricalCrossentropy' });
const inputs = tf.randomNormal([batch, 784], 0, 1, 'float32', 7);
const labels = tf.oneHot(tf.range(0, batch, 1, 'int32').mod(10).toInt(), 10).toFloat();
const variables = model.weights.map((weight) => weight.read());

const state = new hvd.elastic.TensorFlowState({ variables, optimizer });
await hvd.elastic.run(async () => {
  await train(40, true);
  const times = { without: [], with: [] };
  const cpuTimes = { without: [], with: [] };
  for (let window = 0; window < windows; window++) {
    for (const kind of window % 2 === 0 ? ['without', 'with'] : ['with', 'without']) {
      hvd.barrierSync();
      const [start, cpu] = [performance.now(), process.cpuUsage()];
      await train(steps, kind === 'with');
      times[kind].push((performance.now() - start) / steps);
      cpuTimes[kind].push(cpuUsSince(cpu) / 1000 / steps);
    }
  }
  const alone = [];
  for (let step = 0; step < windows * steps; step++) {
    await model.trainOnBatch(inputs, labels);
    const start = performance.now();
    state.save();
    alone.push((performance.now() - start) * 1000);
  }
  const figures = {
    withoutMs: median(times.without),
    withMs: median(times.with),
    // What slows the machine down for longer than two windows is in both.
    pairedMs: pairedDifference(times),
    cpuWithoutMs: median(cpuTimes.without),
    cpuPairedMs: pairedDifference(cpuTimes),
    commitUs: median(alone),
  };
  if (hvd.rank() === 0) console.log(JSON.stringify(figures));
}, state);
await hvd.shutdown();
process.exit(); // threads of the wasm backend would keep the process

async function train(count, commits) {
  for (let step = 0; step < count; step++) {
    await model.trainOnBatch(inputs, labels);
    if (commits) state.commitSync();
  }
}

function cpuUsSince(before) {
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

function pairedDifference(kinds) {
  return median(kinds.with.map((value, window) => value - kinds.without[window]));
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}
