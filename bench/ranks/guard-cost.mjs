// One rank of the measurement of the divergence guard's cost: trains a model for so many steps and adds up the time inside of the guard,
// waiting for the other rank in its comparisons included. Differences of whole steps would be far below the noise. Rank 0 prints a JSON
// line for each model:
//   { model, weights, steps, stepUs, share, plainUs, comparisons, comparisonUs }
// `share`: the guard's part of all time, 0.001 is 0.1 %; `plainUs`: of a step without a comparison (median); `comparisonUs`: of one
// with it (median). Comparisons are after 1, 2, 4 … 1024 steps, then every 1024.
//
//   horovodrun -np 2 bench/ranks/guard-cost.mjs [--models tiny,mlp,cnn] [--steps 1100]
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import * as tf from '@tensorflow/tfjs';

const { values: flags } = parseArgs({
  options: {
    models: { type: 'string', default: 'tiny,mlp,cnn' },
    steps: { type: 'string', default: '1100' },
    library: { type: 'string', default: path.join(import.meta.dirname, '../../dist/tensorflow.js') },
  },
});
const steps = Number(flags.steps);
const library = pathToFileURL(flags.library);
const hvd = await import(library.href);
const { DivergenceGuard } = await import(new URL('./adapters/divergence/divergence-guard.js', library));

const { dense, conv2d, maxPooling2d, flatten } = tf.layers;
/** Layers, shape of a sample, batch, classes. */
const models = {
  // About the smallest step that anybody takes.
  tiny: [() => [dense({ units: 10, activation: 'relu', inputShape: [4] })], [4], 8, 3],
  mlp: [
    () => [
      dense({ units: 512, activation: 'relu', inputShape: [784] }),
      dense({ units: 512, activation: 'relu' }),
    ],
    [784],
    8,
    10,
  ],
  // That of examples/keras/mnist.ts.
  cnn: [
    () => [
      conv2d({ inputShape: [28, 28, 1], filters: 32, kernelSize: 3, activation: 'relu' }),
      conv2d({ filters: 64, kernelSize: 3, activation: 'relu' }),
      maxPooling2d({ poolSize: 2 }),
      flatten(),
      dense({ units: 128, activation: 'relu' }),
    ],
    [28, 28, 1],
    32,
    10,
  ],
};

/** Microseconds of each step inside of the guard. */
let spent = [];
const { step } = DivergenceGuard.prototype;
DivergenceGuard.prototype.step = function* (...given) {
  const began = performance.now();
  try {
    return yield* step.apply(this, given);
  } finally {
    spent.push((performance.now() - began) * 1000);
  }
};

await hvd.init();
await hvd.setBackend('wasm', { threads: 1 });
for (const name of flags.models.split(',')) {
  const [layers, shape, batch, classes] = models[name];
  const model = tf.sequential({ layers: [...layers(), dense({ units: classes, activation: 'softmax' })] });
  model.compile({
    optimizer: hvd.DistributedOptimizer(tf.train.sgd(0.01)),
    loss: 'categoricalCrossentropy',
  });
  await hvd.broadcastVariables(model, 0);
  const inputs = tf.randomNormal([batch, ...shape], 0, 1, 'float32', 7);
  const labels = tf.oneHot(tf.range(0, batch, 1, 'int32').mod(classes).toInt(), classes).toFloat();
  spent = [];
  hvd.barrierSync();
  const began = performance.now();
  for (let i = 0; i < steps; i++) await model.trainOnBatch(inputs, labels);
  const totalUs = (performance.now() - began) * 1000;
  const isCompared = (_, i) => i > 0 && ((i & (i - 1)) === 0 || i % 1024 === 0);
  const compared = spent.filter(isCompared);
  const figures = {
    model: name,
    weights: model.countParams(),
    steps: spent.length,
    stepUs: totalUs / steps,
    share: spent.reduce((sum, each) => sum + each, 0) / totalUs,
    plainUs: median(spent.filter((each, i) => !isCompared(each, i))),
    comparisons: compared.length,
    comparisonUs: median(compared),
  };
  if (hvd.rank() === 0) console.log(JSON.stringify(figures));
}
await hvd.shutdown();
process.exit(); // threads of the wasm backend would keep the process

function median(values) {
  return [...values].sort((a, b) => a - b)[values.length >> 1];
}
