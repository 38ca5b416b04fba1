// Measures training speed on random images. Nothing is read from disk, so only computation and communication count. The
// output has the format of Horovod's synthetic benchmarks.
//
//   npx horovodrun -np 1 examples/tensorflow/synthetic-benchmark.ts                  one rank, for comparison
//   npx horovodrun -np 2 examples/tensorflow/synthetic-benchmark.ts                  two ranks
//   npx horovodrun -np 2 examples/tensorflow/synthetic-benchmark.ts --model transformer --optimizer adam

import * as tf from '@tensorflow/tfjs';
import * as hvd from 'horovod/tensorflow';
import { backends, oneOf, readOptions, wholeNumber } from '../command-line.ts';
import { createModel, modelNames } from './benchmark-models.ts';

const optimizers = {
  sgd: () => tf.train.sgd(0.01),
  momentum: () => tf.train.momentum(0.01, 0.9),
  adam: () => tf.train.adam(0.001),
  rmsprop: () => tf.train.rmsprop(0.001),
} as const;

const usage = `horovodrun -np <ranks> examples/tensorflow/synthetic-benchmark.ts [options]

  --model <name>              ${modelNames.join(', ')} (default: cnn)
  --optimizer <name>          ${Object.keys(optimizers).join(', ')} (default: sgd)
  --backend <name>            ${backends.join(', ')} (default: auto)
  --batch-size <n>            images per batch on each rank (default: 32)
  --num-warmup-batches <n>    batches before the first measurement (default: 10)
  --num-batches-per-iter <n>  batches per measurement (default: 10)
  --num-iters <n>             number of measurements (default: 10)
  --fp16-allreduce            send gradients as 16-bit floats`;

const options = readOptions(usage, {
  model: { type: 'string', default: 'cnn' },
  optimizer: { type: 'string', default: 'sgd' },
  backend: { type: 'string', default: 'auto' },
  'batch-size': { type: 'string', default: '32' },
  'num-warmup-batches': { type: 'string', default: '10' },
  'num-batches-per-iter': { type: 'string', default: '10' },
  'num-iters': { type: 'string', default: '10' },
  'fp16-allreduce': { type: 'boolean', default: false },
});

const modelName = oneOf('--model', options.model, modelNames);
const optimizerName = oneOf('--optimizer', options.optimizer, ['sgd', 'momentum', 'adam', 'rmsprop']);
const backend = oneOf('--backend', options.backend, backends);
const batchSize = wholeNumber('--batch-size', options['batch-size']);
const warmupBatches = wholeNumber('--num-warmup-batches', options['num-warmup-batches'], 0);
const batchesPerIteration = wholeNumber('--num-batches-per-iter', options['num-batches-per-iter']);
const iterations = wholeNumber('--num-iters', options['num-iters']);

await hvd.init();
const backendName = await hvd.setBackend(backend);
const say = (text: string): void => {
  if (hvd.rank() === 0) console.log(text);
};

const model = createModel(modelName);
await hvd.broadcastVariables(model.variables, 0);

const optimizer = hvd.DistributedOptimizer(optimizers[optimizerName](), {
  compression: options['fp16-allreduce'] ? hvd.Compression.fp16 : hvd.Compression.none,
});

const images = tf.randomUniform<tf.Rank.R4>([batchSize, 28, 28, 1], 0, 1, 'float32', hvd.rank());
const labels = tf.oneHot(
  Array.from({ length: batchSize }, (_, i) => (i * 7 + hvd.rank()) % 10),
  10,
);

function trainOneBatch(): void {
  optimizer.minimize(
    () => tf.losses.softmaxCrossEntropy(labels, model.logits(images)),
    false,
    model.variables,
  );
}

say(`Model: ${modelName}, ${model.parameters.toLocaleString('en')} parameters, optimizer: ${optimizerName}`);
say(`Batch size: ${batchSize}`);
say(`Number of ranks: ${hvd.size()}, backend: ${backendName}, transport: ${hvd.transportName()}`);

say('Running warmup...');
for (let batch = 0; batch < warmupBatches; batch++) trainOneBatch();
await waitForBackend();

say('Running benchmark...');
const rates: number[] = [];
for (let iteration = 0; iteration < iterations; iteration++) {
  await hvd.barrier(); // all ranks start each measurement together
  const startedAt = performance.now();
  for (let batch = 0; batch < batchesPerIteration; batch++) trainOneBatch();
  await waitForBackend();
  const rate = (batchSize * batchesPerIteration * 1000) / (performance.now() - startedAt);
  rates.push(rate);
  say(`Iter #${iteration}: ${rate.toFixed(1)} img/sec per rank`);
}

// 95 % of a normal distribution lies within 1.96 standard deviations of the mean.
const mean = rates.reduce((sum, rate) => sum + rate, 0) / rates.length;
const deviation = 1.96 * Math.sqrt(rates.reduce((sum, rate) => sum + (rate - mean) ** 2, 0) / rates.length);
say(`Img/sec per rank: ${mean.toFixed(1)} +-${deviation.toFixed(1)}`);
say(
  `Total img/sec on ${hvd.size()} rank(s): ${(hvd.size() * mean).toFixed(1)} +-${(hvd.size() * deviation).toFixed(1)}`,
);
await hvd.shutdown();

/** Backends may compute asynchronously. Reading a value waits for all operations before it. */
async function waitForBackend(): Promise<void> {
  await model.variables[0]?.data();
}
