// Is a review positive? Word embeddings and two dense layers learn this from 2,400 sentences. STEP 1 to STEP 10 mark the
// changes that turned a script for one process into a distributed one; docs/guide/ten-steps.md explains them. Without a
// launcher, the script still runs in one process.
//
//   npx horovodrun -np 2 examples/tensorflow/text-classification.ts
//   npx horovodrun -np 2 examples/tensorflow/text-classification.ts --epochs 1 --save reviews-model

import * as tf from '@tensorflow/tfjs';
import { saveModel } from 'horovod/keras';
// STEP 1: import Horovod.
import * as hvd from 'horovod/tensorflow';
import { backends, oneOf, readOptions, wholeNumber } from '../command-line.ts';
import { loadSentences, type Sentence, Vocabulary } from '../data/sentences.ts';

const usage = `horovodrun -np <ranks> examples/tensorflow/text-classification.ts [options]

  --epochs <n>       number of epochs (default: 8)
  --batch-size <n>   sentences per batch on each rank (default: 16)
  --backend <name>   ${backends.join(', ')} (default: auto)
  --save <folder>    save the trained model here (default: do not save)`;

const options = readOptions(usage, {
  epochs: { type: 'string', default: '8' },
  'batch-size': { type: 'string', default: '16' },
  backend: { type: 'string', default: 'auto' },
  save: { type: 'string' },
});

const epochs = wholeNumber('--epochs', options.epochs);
const batchSize = wholeNumber('--batch-size', options['batch-size']);
const wordsPerSentence = 32;

// STEP 2: find the other ranks.
await hvd.init();

// STEP 3: choose a backend. It computes with one thread per rank. To assign cores or a GPU to each rank, run horovodrun
// with --pin-cores or --pin-gpus.
await hvd.setBackend(oneOf('--backend', options.backend, backends));

// STEP 4: take this rank's share of the data. All ranks get the same number of sentences. The vocabulary is built from all
// sentences, because a word must have the same number on every rank.
const { training, testing } = loadSentences();
const vocabulary = new Vocabulary(training);
const [sentences, labels] = toTensors(hvd.shard(training));
const [testSentences, testLabels] = toTensors(hvd.shard(testing));

const model = tf.sequential({
  layers: [
    tf.layers.embedding({ inputDim: vocabulary.size, outputDim: 32, inputLength: wordsPerSentence }),
    tf.layers.globalAveragePooling1d({}),
    tf.layers.dropout({ rate: 0.3 }),
    tf.layers.dense({ units: 16, activation: 'relu' }),
    tf.layers.dense({ units: 1, activation: 'sigmoid' }),
  ],
});

// STEP 5: scale the learning rate, because an update uses the sentences of all ranks.
const learningRate = 0.0025 * hvd.size();

// STEP 6: wrap the optimizer. It averages the gradients over all ranks before it applies them.
const optimizer = hvd.DistributedOptimizer(tf.train.adam(learningRate));
model.compile({ optimizer, loss: 'binaryCrossentropy', metrics: ['accuracy'] });

// STEP 7: start from the weights of rank 0.
await hvd.broadcastVariables(model, 0);

// STEP 9: let one rank print. (STEP 8 comes below, where metrics are reported.)
const say = (text: string): void => {
  if (hvd.rank() === 0) console.log(text);
};

say(
  `${training.length} sentences, ${vocabulary.size} words, ${hvd.size()} rank(s), ` +
    `backend: ${tf.getBackend()}, transport: ${hvd.transportName()}`,
);
const startedAt = performance.now();
await model.fit(sentences, labels, {
  batchSize,
  epochs,
  verbose: 0,
  callbacks: {
    onEpochEnd: async (epoch, logs) => {
      // STEP 8: average the metrics. Each rank only knows the loss of its own sentences.
      const loss = await hvd.allreduce(Float64Array.of(logs?.['loss'] as number));
      say(`epoch ${epoch + 1}/${epochs}  loss ${loss[0]?.toFixed(4)}`);
    },
  },
});
const seconds = (performance.now() - startedAt) / 1000;

const [, share] = model.evaluate(testSentences, testLabels) as [tf.Scalar, tf.Scalar];
const accuracy = await hvd.allreduce(share); // STEP 8 again, with a tensor
say(`${((epochs * sentences.shape[0] * hvd.size()) / seconds).toFixed(0)} sentences/s`);
say(`test accuracy ${(100 * (accuracy.dataSync()[0] as number)).toFixed(2)} %`);

// STEP 10: save on one rank, then shut down together. saveModel() writes on rank 0 and does nothing on the others.
if (options.save !== undefined) await saveModel(model, options.save);
await hvd.shutdown();

function toTensors(part: readonly Sentence[]): [tf.Tensor2D, tf.Tensor2D] {
  const texts = part.map((sentence) => sentence.text);
  const table = vocabulary.encode(texts, wordsPerSentence);
  return [
    tf.tensor2d(Float32Array.from(table), [part.length, wordsPerSentence]),
    tf.tensor2d(
      part.map((sentence) => (sentence.isPositive ? 1 : 0)),
      [part.length, 1],
      'float32',
    ),
  ];
}
