import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import * as hvd from '../../../keras.ts';
import { BestModelCheckpoint } from '../callbacks/best-model-checkpoint.ts';

before(async () => {
  await hvd.init();
  await hvd.setBackend('cpu');
});
after(() => hvd.shutdown());

const lost = new Error('a rank is lost');

function makeModel({ withNorm = false } = {}): tf.Sequential {
  const layers: tf.layers.Layer[] = [tf.layers.dense({ units: 2, inputShape: [2] })];
  if (withNorm) layers.push(tf.layers.batchNormalization());
  const model = tf.sequential({ layers });
  model.compile({ optimizer: hvd.DistributedOptimizer(tf.train.sgd(0.1)), loss: 'meanSquaredError' });
  return model;
}

const data = (samples = 8) => ({
  x: tf.randomNormal([samples, 2], 0, 1, 'float32', 1),
  y: tf.ones([samples, 2]),
});
const valuesOf = (model: tf.LayersModel) => model.weights.map((weight) => [...weight.read().dataSync()]);

/** Notes what the state says at the end of each batch and epoch, after the callbacks before it. */
function notes(state: hvd.elastic.State & { epoch: number; batch: number }, failAt?: string) {
  const seen: string[] = [];
  const note = (what: string) => {
    seen.push(`${what}: epoch ${state.epoch}, batch ${state.batch}, commits ${state.commits}`);
    if (what === failAt) throw lost;
  };
  const callback = {
    onBatchEnd: async (batch: number) => note(`batch ${batch}`),
    onEpochEnd: async (epoch: number) => note(`end of ${epoch}`),
  };
  return { seen, callback };
}

describe('KerasState', () => {
  test('test_elastic_state: values of the last commit come back, moving averages too', async () => {
    const model = makeModel({ withNorm: true });
    const state = new hvd.elastic.KerasState({ model, batch: 20, epoch: 10 });
    await state.sync();
    const committed = valuesOf(model);
    const { x, y } = data();
    await model.fit(x, y, { epochs: 1, verbose: 0 });
    state.batch = 21;
    state.epoch = 11;
    assert.notDeepEqual(valuesOf(model)[4], committed[4], 'a moving average');
    state.restore();
    assert.deepEqual(valuesOf(model), committed);
    assert.deepEqual([state.batch, state.epoch], [20, 10]);
    await model.fit(x, y, { epochs: 1, verbose: 0 });
    state.batch = 22;
    await state.commit();
    const second = valuesOf(model);
    await model.fit(x, y, { epochs: 1, verbose: 0 });
    state.restore();
    assert.deepEqual(valuesOf(model), second);
    assert.equal(state.batch, 22);
    assert.equal(state.model, model);
    tf.dispose([x, y]);
    model.dispose();
  });

  test('a model without weights or without an optimizer is rejected', () => {
    const make = (content: object) => () => new hvd.elastic.KerasState(content as never);
    const invalid = (message: RegExp) => ({ code: 'ERR_HVD_INVALID_ARGUMENT', message });
    assert.throws(make({ model: tf.sequential() }), invalid(/no weights yet/));
    const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [1] })] });
    assert.throws(make({ model }), invalid(/compile/));
    assert.throws(make({ model: {} }), invalid(/a model of tf\.layers/));
    new hvd.elastic.KerasState({ model, optimizer: tf.train.sgd(1) }).commitSync();
    model.dispose();
  });
});

describe('callbacks', () => {
  test('a commit after batch k says k + 1; the last batch is committed with its epoch', async () => {
    const model = makeModel();
    const state = new hvd.elastic.KerasState({ model, epoch: 0, batch: 0 });
    const { seen, callback } = notes(state);
    const { x, y } = data();
    const callbacks = hvd.callbacks.list([...hvd.elastic.callbacks(state), callback]);
    await model.fit(x, y, { batchSize: 4, epochs: 2, verbose: 0, callbacks });
    assert.deepEqual(seen, [
      'batch 0: epoch 0, batch 1, commits 1',
      'batch 1: epoch 0, batch 2, commits 1',
      'end of 0: epoch 1, batch 0, commits 2',
      'batch 0: epoch 1, batch 1, commits 3',
      'batch 1: epoch 1, batch 2, commits 3',
      'end of 1: epoch 2, batch 0, commits 4',
    ]);
    tf.dispose([x, y]);
    model.dispose();
  });

  test('batchesPerCommit: every so many batches, counted anew in each fit()', async () => {
    const model = makeModel();
    const state = new hvd.elastic.KerasState({ model });
    const commits: number[] = [];
    const { x, y } = data();
    const train = () =>
      model.fit(x, y, {
        batchSize: 1,
        verbose: 0,
        callbacks: hvd.callbacks.list([
          new hvd.elastic.CommitStateCallback(state, { batchesPerCommit: 3 }),
          { onBatchEnd: async () => void commits.push(state.commits) },
        ]),
      });
    await train();
    await train();
    assert.deepEqual(commits, [0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 4, 5, 5, 5]);
    tf.dispose([x, y]);
    model.dispose();
  });

  test('after a failure the first epoch is shortened, and the next ones are whole', async () => {
    const model = makeModel();
    const state = new hvd.elastic.KerasState({ model, epoch: 0, batch: 0 });
    const { x, y } = data();
    const train = (failAt?: string) => {
      const { seen, callback } = notes(state, failAt);
      const callbacks = hvd.callbacks.list([...hvd.elastic.callbacks(state), callback]);
      const done = model.fit(x, y, {
        batchSize: 2,
        epochs: 3,
        initialEpoch: state.epoch,
        verbose: 0,
        callbacks,
      });
      return { seen, done };
    };
    await assert.rejects(train('batch 2').done, lost);
    state.restore();
    assert.deepEqual([state.epoch, state.batch], [0, 3]);
    const second = train('batch 1');
    await assert.rejects(second.done, lost);
    state.restore();
    assert.deepEqual(second.seen.slice(0, 2), [
      'batch 0: epoch 0, batch 4, commits 3',
      'end of 0: epoch 1, batch 0, commits 4',
    ]);
    assert.deepEqual([state.epoch, state.batch], [1, 2]);
    const third = train();
    await third.done;
    assert.deepEqual(
      third.seen.map((line) => line.split(', commits')[0]),
      [
        'batch 0: epoch 1, batch 3',
        'batch 1: epoch 1, batch 4',
        'end of 1: epoch 2, batch 0',
        'batch 0: epoch 2, batch 1',
        'batch 1: epoch 2, batch 2',
        'batch 2: epoch 2, batch 3',
        'batch 3: epoch 2, batch 4',
        'end of 2: epoch 3, batch 0',
      ],
    );
    tf.dispose([x, y]);
    model.dispose();
  });

  for (const withSampler of [false, true]) {
    const how = withSampler
      ? 'with the rest of an epoch from a sampler'
      : 'within an epoch that is cut short';
    test(`a warm-up goes on where it was, ${how}, with the momentum of the user`, async () => {
      const model = tf.sequential({ layers: [tf.layers.dense({ units: 2, inputShape: [2] })] });
      const optimizer = tf.train.momentum(0.1, 0.5);
      model.compile({ optimizer, loss: 'meanSquaredError' });
      const sampler = new hvd.elastic.ElasticSampler({ length: 8, batchSize: 2, shuffle: false });
      const state = new hvd.elastic.KerasState({
        model,
        epoch: 0,
        batch: 0,
        ...(withSampler ? { sampler } : {}),
      });
      const { x, y } = data();
      const rates: number[] = [];
      const train = async (failAt?: number) => {
        const part = withSampler ? sampler.tensors({ x, y }) : { x: x.clone(), y: y.clone() };
        // Made anew with each call, as in a training function.
        const warmup = new hvd.callbacks.LearningRateScheduleCallback({
          initialLr: 1,
          multiplier: (epoch) => 1 + epoch,
          staircase: false,
        });
        const onBatchBegin = async () => void rates.push(hvd.getLearningRate(optimizer));
        const onBatchEnd = async (batch: number) => {
          if (batch === failAt) throw lost;
        };
        const callbacks = [...hvd.elastic.callbacks(state), warmup, { onBatchBegin, onBatchEnd }];
        try {
          await model.fit(part.x, part.y, {
            batchSize: 2,
            initialEpoch: state.epoch,
            epochs: 1,
            verbose: 0,
            callbacks: hvd.callbacks.list(callbacks),
          });
        } finally {
          tf.dispose(part);
        }
      };
      await assert.rejects(train(1), lost);
      hvd.setMomentum(optimizer, 0.9);
      state.restore();
      assert.equal(hvd.getMomentum(optimizer), 0.5);
      await train();
      assert.deepEqual(rates, [1, 1.25, 1.5, 1.75]);
      assert.equal(hvd.getMomentum(optimizer), 0.5);
      tf.dispose([x, y]);
      model.dispose();
    });
  }

  test('BestModelCheckpoint as a field keeps its best value, on every rank', async () => {
    const model = makeModel();
    const options = { filepath: 'never', monitor: 'loss', mode: 'min' } as const;
    const best = new BestModelCheckpoint(options, { rank: () => 1, size: () => 2 });
    const state = new hvd.elastic.KerasState({ model, best });
    await state.sync();
    assert.equal(best.best, Number.POSITIVE_INFINITY);
    const end = (loss: number) => best.onEpochEnd(0, { loss });
    best.setModel(model as never);
    await end(3);
    await end(4);
    assert.equal(best.best, 3);
    state.commitSync();
    await end(1);
    state.restore();
    assert.equal(best.best, 3);
    await state.sync();
    assert.equal(state.best, best);
    model.dispose();
  });

  test('with a sampler, fit() gets what is left of the epoch, every sample once', async () => {
    const model = makeModel();
    const sampler = new hvd.elastic.ElasticSampler({ length: 10, batchSize: 2, uneven: 'exact' });
    const state = new hvd.elastic.KerasState({ model, epoch: 0, batch: 0, sampler });
    const x = tf.tensor2d(Array.from({ length: 10 }, (_, i) => [i, i]));
    const y = tf.zeros([10, 2]);
    const committed: number[] = [];
    const run = async (failAt: number | undefined) => {
      for (; state.epoch < 2; ) {
        const part = sampler.tensors({ x, y });
        const rows = [...part.x.dataSync()].filter((_, i) => i % 2 === 0);
        const onBatchEnd = async (batch: number) => {
          if (batch === failAt) throw lost;
          committed.push(...rows.slice(2 * batch, 2 * batch + 2));
        };
        try {
          await model.fit(part.x, part.y, {
            batchSize: sampler.batchSize,
            shuffle: false,
            initialEpoch: state.epoch,
            epochs: state.epoch + 1,
            verbose: 0,
            // The note comes first: what it throws at is not committed.
            callbacks: hvd.callbacks.list([{ onBatchEnd }, ...hvd.elastic.callbacks(state)]),
          });
        } finally {
          tf.dispose(part);
        }
      }
    };
    await assert.rejects(run(2), lost);
    state.restore();
    assert.deepEqual([sampler.epoch, sampler.position, state.batch], [0, 4, 2]);
    await run(undefined);
    const sorted = (list: readonly number[]) => [...list].sort((a, b) => a - b);
    const all = Array.from({ length: 10 }, (_, i) => i);
    assert.deepEqual(sorted(committed.slice(0, 10)), all);
    assert.deepEqual(sorted(committed.slice(10)), all);
    assert.deepEqual([sampler.epoch, state.epoch, state.batch], [2, 2, 0]);
    tf.dispose([x, y]);
    model.dispose();
  });

  test('fitDataset() takes the batches of a sampler, epoch after epoch, and leaves no tensors', async () => {
    const model = makeModel();
    const sampler = new hvd.elastic.ElasticSampler({ length: 6, batchSize: 2 });
    const state = new hvd.elastic.KerasState({ model, epoch: 0, batch: 0, sampler });
    const asked: number[] = [];
    const dataset = sampler.dataset((index) => {
      asked.push(index);
      return { xs: tf.tensor1d([index, 1]), ys: [0, 1] };
    });
    const train = (epochs: number) =>
      model.fitDataset(dataset, {
        epochs,
        initialEpoch: state.epoch,
        verbose: 0,
        callbacks: hvd.elastic.callbacks(state),
      });
    await train(1);
    const { numTensors } = tf.memory();
    await train(3);
    assert.equal(tf.memory().numTensors, numTensors);
    assert.deepEqual([state.epoch, sampler.epoch, asked.length], [3, 3, 18]);
    for (const epoch of [0, 1, 2]) assert.equal(new Set(asked.slice(6 * epoch, 6 * epoch + 6)).size, 6);
    model.dispose();
  });

  test('fitDataset() goes on in a stream where the last commit was, and leaves no tensors', async () => {
    const model = makeModel();
    const state = new hvd.elastic.KerasState({ model, epoch: 0, batch: 0, position: 0 });
    const asked: number[] = [];
    const stream = () =>
      tf.data
        .array([0, 1, 2, 3, 4, 5])
        .map((index) => ({ xs: tf.tensor1d([index as number, 1]), ys: tf.tensor1d([0, 1]) }))
        .batch(2);
    const dataset = hvd.elastic.resume(stream, state);
    const train = (callbacks: tf.CustomCallbackArgs[] = []) =>
      model.fitDataset(dataset, {
        epochs: 2,
        initialEpoch: state.epoch,
        verbose: 0,
        callbacks: [...hvd.elastic.callbacks(state), new tf.CustomCallback(callbacks[0] ?? {})],
      });
    await train();
    assert.deepEqual([state.epoch, state.position], [2, 0]);
    const { numTensors } = tf.memory();
    state.epoch = 0;
    await train();
    assert.equal(tf.memory().numTensors, numTensors);
    state.epoch = 0;
    let batches = 0;
    const loseOne = {
      onBatchBegin: () => {
        asked.push(state.position);
        if (++batches === 2) throw lost;
      },
    };
    await assert.rejects(train([loseOne]), lost);
    state.restore();
    // The element of the second batch is given again.
    assert.deepEqual([asked, state.position], [[1, 2], 1]);
    await train([{ onBatchBegin: () => void asked.push(state.position) }]);
    assert.deepEqual(asked.slice(2), [2, 3, 1, 2, 3]);
    model.dispose();
  });

  test('a stream of plain elements is one here, too', async () => {
    const taken: number[] = [];
    const state = { position: 1 };
    for await (const each of hvd.elastic.resume(() => [4, 5, 6], state)) taken.push(each);
    assert.deepEqual([taken, state.position], [[5, 6], 0]);
  });

  test('wrong states and options are rejected', () => {
    const model = makeModel();
    const invalid = { code: 'ERR_HVD_INVALID_ARGUMENT' };
    const state = new hvd.elastic.KerasState({ model });
    assert.throws(() => new hvd.elastic.UpdateBatchStateCallback(state as never), invalid);
    assert.throws(() => new hvd.elastic.UpdateEpochStateCallback(state as never), invalid);
    assert.throws(() => hvd.elastic.CommitStateCallback(state, { batchesPerCommit: 0 }), invalid);
    assert.throws(() => hvd.elastic.callbacks(undefined as never), invalid);
    model.dispose();
  });
});
