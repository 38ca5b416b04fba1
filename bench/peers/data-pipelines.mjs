// Whole pipelines of bench/data.mjs, with threads, as training runs them: reads a task per line and prints its figure. `starved`: the
// share of the time in which the loop waits for data. `restore`: the first batch after restore() at 90 % of an epoch, against the first
// one of a fresh start. `training`: steps per second of a model on TFRecord files, against the same on tensors in memory.
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { exported, FixedLenFeature, tfRecordDataset } from '../../dist/data/index.js';

const batchSize = 128;
const pixels = 3072;
const warmSteps = 20;
const features = { image: FixedLenFeature([pixels], 'uint8'), label: FixedLenFeature([], 'int32') };

function parsed(file, options = {}) {
  return tfRecordDataset(file, { shard: 'none', ...options }).parseExample(features);
}

const tasks = {
  /** A step of `stepMs` in which the processor belongs to the threads; `mapMs` of work in map() for each batch. */
  async starved({ file, seconds, stepMs, mapMs }) {
    const work = exported(new URL('./data-work.mjs', import.meta.url), 'work', { ms: mapMs / batchSize });
    const elements = mapMs > 0 ? parsed(file).map(work) : parsed(file);
    const data = elements.batch(batchSize, { dropRemainder: true }).repeat();
    // Threads start and fill their queue first.
    let [steps, start, waited] = [0, 0, 0];
    const batches = data.iterator();
    for await (const batch of batches) {
      await sleep(stepMs);
      // As tensors() does when it has copied a batch.
      batches.release(batch);
      if (++steps === warmSteps) [start, waited] = [performance.now(), data.metrics().waitedSeconds];
      if (steps > warmSteps && performance.now() > start + seconds * 1000) break;
    }
    return { value: (data.metrics().waitedSeconds - waited) / ((performance.now() - start) / 1000) };
  },

  async restore({ file }) {
    const open = () =>
      parsed(file, { shuffle: { seed: 1, pool: 4096 } }).batch(batchSize, { dropRemainder: true });
    const first = async (data) => {
      const batches = data.iterator();
      const start = performance.now();
      await batches.next();
      const took = performance.now() - start;
      await batches.return();
      return took;
    };
    const counted = open();
    const batches = counted.iterator();
    await batches.next();
    const { size } = counted;
    for (let done = 1; done < Math.floor(0.9 * size); done += 1) await batches.next();
    const state = await counted.state();
    await batches.return();
    const fresh = await first(open());
    const restored = open();
    restored.restore(state);
    return { value: (await first(restored)) / fresh };
  },

  async training({ file, seconds }) {
    const tf = await import('@tensorflow/tfjs');
    const hvd = await import('../../dist/tensorflow.js');
    await hvd.setBackend('wasm');
    const model = tf.sequential({
      layers: [
        tf.layers.dense({ inputShape: [pixels], units: 256, activation: 'relu' }),
        tf.layers.dense({ units: 10, activation: 'softmax' }),
      ],
    });
    model.compile({ optimizer: 'sgd', loss: 'sparseCategoricalCrossentropy' });
    const train = async ({ image, label }) => {
      const [xs, ys] = tf.tidy(() => [tf.div(image, 255), tf.cast(label, 'float32')]);
      await model.trainOnBatch(xs, ys);
      tf.dispose([xs, ys]);
    };
    const data = parsed(file).batch(batchSize, { dropRemainder: true }).repeat();
    const batches = await hvd.tensors(data).iterator();
    const kept = [];
    for (let i = 0; i < 8; i += 1) kept.push((await batches.next()).value);
    const stepsPerSecond = async (take) => {
      const start = performance.now();
      for (let steps = 1; ; steps += 1) {
        await train(await take(steps));
        const took = (performance.now() - start) / 1000;
        if (took >= seconds / 2) return steps / took;
      }
    };
    for (const each of kept) await train(each);
    const memory = await stepsPerSecond(async (step) => kept[step % kept.length]);
    const files = await stepsPerSecond(async () => {
      const { value } = await batches.next();
      // The tensors of the batch before.
      tf.dispose(last);
      last = value;
      return value;
    });
    tf.dispose([last, kept, model.getWeights()]);
    await batches.return?.();
    return { value: files / memory };
  },
};

let last = [];
for await (const line of createInterface({ input: process.stdin })) {
  const { task, ...options } = JSON.parse(line);
  last = [];
  console.log(JSON.stringify(await tasks[task](options)));
}
