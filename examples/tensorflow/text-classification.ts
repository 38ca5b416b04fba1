// Is a review favourable? Word embeddings and two dense layers learn it from 2 400 sentences. The script was written for
// one process first; the ten steps that distribute it are marked STEP 1 … STEP 10 and explained in
// docs/guide/ten-steps.md. Without a launcher it still is a script for one process.
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

  --epochs <n>       times through the sentences (8)
  --batch-size <n>   sentences in a batch of one rank (16)
  --backend <name>   ${backends.join(', ')} (auto)
  --save <folder>    where to write the trained model (nowhere)`;

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

// STEP 3: give every rank its own part of the machine. A backend computes with one thread per rank; horovodrun gives each
// rank cores of its own with --pin-cores and a GPU with --pin-gpus.
await hvd.setBackend(oneOf('--backend', options.backend, backends));

// STEP 4: every rank takes another part of the data, and all take the same number of sentences. The vocabulary comes from
// all of them: a word must have the same number everywhere.
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

// STEP 5: scale the learning rate. An update sees the sentences of all ranks, so it may go further.
const learningRate = 0.0025 * hvd.size();

// STEP 6: wrap the optimizer. Gradients are averaged over the ranks before they are applied.
const optimizer = hvd.DistributedOptimizer(tf.train.adam(learningRate));
model.compile({ optimizer, loss: 'binaryCrossentropy', metrics: ['accuracy'] });

// STEP 7: start from the same weights, those of rank 0.
await hvd.broadcastVariables(model, 0);

// STEP 8 is below, where something is reported. STEP 9: let one rank report it.
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
      // STEP 8: average what is reported. Each rank knows only the loss of its own sentences.
      const loss = await hvd.allreduce(Float64Array.of(logs?.['loss'] as number));
      say(`epoch ${epoch + 1}/${epochs}  loss ${loss[0]?.toFixed(4)}`);
    },
  },
});
const seconds = (performance.now() - startedAt) / 1000;

const [, share] = model.evaluate(testSentences, testLabels) as [tf.Scalar, tf.Scalar];
const accuracy = await hvd.allreduce(share); // STEP 8 again: a tensor in, a tensor out
say(`${((epochs * sentences.shape[0] * hvd.size()) / seconds).toFixed(0)} sentences/s`);
say(`test accuracy ${(100 * (accuracy.dataSync()[0] as number)).toFixed(2)} %`);

// STEP 10: one rank writes, then all leave together. saveModel() writes on rank 0 and returns on the others.
if (options.save !== undefined) await saveModel(model, options.save);
await hvd.shutdown();

function toTensors(part: readonly Sentence[]): [tf.Tensor2D, tf.Tensor2D] {
  const texts = part.map((sentence) => sentence.text);
  const table = vocabulary.encode(texts, wordsPerSentence);
  return [
    tf.tensor2d(Float32Array.from(table), [part.length, wordsPerSentence]),
    tf.tensor2d(
      part.map((sentence) => (sentence.isFavourable ? 1 : 0)),
      [part.length, 1],
      'float32',
    ),
  ];
}
