import assert from 'node:assert/strict';
import { before, describe, mock, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { getLearningRate, getMomentum, setLearningRate } from '../../tensorflow/learning-rate.ts';
import { LearningRateScheduleCallback } from './learning-rate-schedule.ts';
import { LearningRateWarmupCallback } from './learning-rate-warmup.ts';
import { warmupMultiplier } from './multipliers.ts';

before(() => tf.setBackend('cpu'));

interface Step {
  readonly epoch: number;
  readonly batch: number;
  readonly lr: number;
  readonly momentum: number | undefined;
}

const ofRanks = (size: number) => ({ rank: () => 0, size: () => size });

/** Trains a tiny model and tells learning rate and momentum as every step has used them. */
async function record(
  optimizer: tf.Optimizer,
  callbacks: tf.Callback[],
  { epochs = 3, samples = 6, batchSize = 2, dataset = false } = {},
): Promise<{ steps: Step[]; history: tf.History['history'] }> {
  const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [1] })] });
  model.compile({ optimizer, loss: 'meanSquaredError' });
  const steps: Step[] = [];
  let at = { epoch: 0, batch: 0 };
  const apply = optimizer.applyGradients.bind(optimizer);
  optimizer.applyGradients = (gradients) => {
    steps.push({ ...at, lr: getLearningRate(optimizer), momentum: getMomentum(optimizer) });
    apply(gradients);
  };
  const place = new (class extends tf.Callback {
    override async onEpochBegin(epoch: number) {
      at = { ...at, epoch };
    }
    override async onBatchBegin(batch: number) {
      at = { ...at, batch };
    }
  })();
  const [x, y] = [tf.ones([samples, 1]), tf.zeros([samples, 1])];
  const { history } = dataset
    ? await model.fitDataset(tf.data.generator(batchesOf(x, y, 4)) as never, {
        epochs,
        callbacks: [...callbacks, place],
        verbose: 0,
      })
    : await model.fit(x, y, {
        epochs,
        batchSize,
        shuffle: false,
        callbacks: [...callbacks, place],
        verbose: 0,
      });
  return { steps, history };
}

function batchesOf(x: tf.Tensor, y: tf.Tensor, batches: number): () => Generator<tf.TensorContainer> {
  return function* () {
    for (let batch = 0; batch < batches; batch += 1) yield { xs: x.clone(), ys: y.clone() };
  };
}

const close = (actual: number, expected: number) =>
  assert.ok(Math.abs(actual - expected) < 1e-12, `${actual} is not ${expected}`);

describe('LearningRateWarmupCallback', () => {
  for (const size of [1, 2, 3, 8]) {
    test(`as if of ${size} ranks: every step has the learning rate of the formula`, async () => {
      const warmup = new LearningRateWarmupCallback({ initialLr: 0.4, warmupEpochs: 2 }, ofRanks(size));
      const { steps, history } = await record(tf.train.sgd(0.4), [warmup]);
      const multiplier = warmupMultiplier(size, 2, 3);
      for (const { epoch, batch, lr } of steps) {
        close(lr, epoch < 2 ? 0.4 * multiplier(epoch + batch / 3) : 0.4);
      }
      close(steps[5]?.lr ?? 0, 0.4);
      close(history['lr']?.[2] as number, 0.4);
    });
  }

  test('rank 0 says when it is over, in the words of Horovod; others and the quiet say nothing', async () => {
    const log = mock.method(console, 'log', () => {});
    try {
      const options = { initialLr: 0.0125, warmupEpochs: 2, verbose: 1 };
      const loud = new LearningRateWarmupCallback(options, ofRanks(4));
      const other = new LearningRateWarmupCallback(options, { rank: () => 1, size: () => 4 });
      const quiet = new LearningRateWarmupCallback({ ...options, verbose: 0 }, ofRanks(4));
      await record(tf.train.sgd(0.0125), [loud, other, quiet]);
      assert.deepEqual(
        log.mock.calls.map((call) => call.arguments),
        [['Epoch 2: finished gradual learning rate warmup to 0.0125.']],
      );
    } finally {
      log.mock.restore();
    }
  });

  test('a partial last batch counts as a step: the warm-up ends at the learning rate, not beyond', async () => {
    const warmup = new LearningRateWarmupCallback({ initialLr: 1, warmupEpochs: 1 }, ofRanks(4));
    const { steps } = await record(tf.train.sgd(0.001), [warmup], { samples: 5, epochs: 1 });
    assert.deepEqual(
      steps.map(({ lr }) => lr),
      [0.5, 0.75, 1],
    );
  });
});

describe('LearningRateScheduleCallback', () => {
  test('a staircase changes the rate at the first batch of the epochs it is active in', async () => {
    const schedule = new LearningRateScheduleCallback({
      initialLr: 1,
      multiplier: 0.1,
      startEpoch: 1,
      endEpoch: 3,
    });
    const { steps } = await record(tf.train.sgd(0.5), [schedule], { epochs: 4 });
    for (const { epoch, lr } of steps) close(lr, [0.5, 1, 0.1, 0.1][epoch] as number);
  });

  test('without staircase every batch has its own fraction of an epoch', async () => {
    const schedule = new LearningRateScheduleCallback({
      initialLr: 1,
      multiplier: (epoch) => 1 / (1 + epoch),
      staircase: false,
    });
    const { steps } = await record(tf.train.adam(0.5), [schedule]);
    for (const { epoch, batch, lr } of steps) close(lr, 1 / (1 + epoch + batch / 3));
  });

  test('momentum is corrected for the one step that changes the rate, then restored', async () => {
    const schedule = new LearningRateScheduleCallback({
      initialLr: 0.25,
      multiplier: (epoch) => 0.5 ** epoch,
    });
    const optimizer = tf.train.momentum(0.5, 0.75);
    const { steps } = await record(optimizer, [schedule], { epochs: 2 });
    assert.deepEqual(
      steps.map(({ momentum }) => momentum),
      [0.375, 0.75, 0.75, 0.375, 0.75, 0.75],
    );
    assert.equal(getMomentum(optimizer), 0.75);
  });

  test('with momentumCorrection: false momentum stays as it is', async () => {
    const schedule = new LearningRateScheduleCallback({
      initialLr: 0.1,
      multiplier: 0.5,
      momentumCorrection: false,
    });
    const { steps } = await record(tf.train.momentum(0.2, 0.8), [schedule]);
    assert.deepEqual([...new Set(steps.map(({ momentum }) => momentum))], [0.8]);
  });

  test('a learning rate of 0 before the change corrects nothing', async () => {
    const optimizer = tf.train.momentum(0.2, 0.8);
    setLearningRate(optimizer, 0);
    const schedule = new LearningRateScheduleCallback({ initialLr: 0.1, multiplier: 1 });
    const { steps } = await record(optimizer, [schedule], { epochs: 1 });
    assert.deepEqual(
      steps.map(({ lr, momentum }) => [lr, momentum]),
      [
        [0.1, 0.8],
        [0.1, 0.8],
        [0.1, 0.8],
      ],
    );
  });

  test('warm-up, then schedule: each is active in its own epochs', async () => {
    const warmup = new LearningRateWarmupCallback({ initialLr: 1, warmupEpochs: 1 }, ofRanks(2));
    const schedule = new LearningRateScheduleCallback({ initialLr: 1, multiplier: 0.1, startEpoch: 1 });
    const { steps, history } = await record(tf.train.sgd(1), [warmup, schedule]);
    close(steps[0]?.lr as number, 2 / 3);
    close(steps[3]?.lr as number, 1);
    close(steps[6]?.lr as number, 0.1);
    assert.deepEqual(history['lr'], [1, 1, 0.1]);
  });

  test('a dataset of unknown size needs stepsPerEpoch, and the error says so', async () => {
    const make = (stepsPerEpoch?: number) =>
      new LearningRateScheduleCallback({
        initialLr: 1,
        multiplier: (epoch) => epoch,
        staircase: false,
        stepsPerEpoch,
      });
    await assert.rejects(record(tf.train.sgd(1), [make()], { dataset: true }), {
      code: 'ERR_HVD_INVALID_ARGUMENT',
      message: /Could not autodetect the number of steps per epoch.*LearningRateScheduleCallback\(\)/,
    });
    const { steps } = await record(tf.train.sgd(1), [make(4)], { dataset: true, epochs: 1 });
    assert.deepEqual(
      steps.map(({ lr }) => lr),
      [0, 0.25, 0.5, 0.75],
    );
  });

  test('wrong options are rejected at once', () => {
    const make = (options: object) => () => new LearningRateScheduleCallback(options as never);
    const code = 'ERR_HVD_INVALID_ARGUMENT';
    assert.throws(make({ multiplier: 1 }), {
      code,
      message:
        /Parameter `initialLr` is required\..*new LearningRateScheduleCallback\(\{ initialLr: 0\.1, multiplier: 0\.5 \}\)/,
    });
    // As in Python Horovod.
    assert.throws(() => new LearningRateWarmupCallback(0.1 as never), {
      code,
      message:
        /Parameter `initialLr` is required\..*as one object: new LearningRateWarmupCallback\(\{ initialLr: 0\.1 \}\)/,
    });
    assert.throws(make({ initialLr: Number.NaN, multiplier: 1 }), { code });
    assert.throws(make({ initialLr: 1 }), { code, message: /multiplier/ });
    assert.throws(make({ initialLr: 1, multiplier: 1, stepsPerEpoch: 0 }), {
      code,
      message: /stepsPerEpoch/,
    });
  });

  test('a multiplier that gives no number stops training with the epoch in the message', async () => {
    const schedule = new LearningRateScheduleCallback({ initialLr: 1, multiplier: () => Number.NaN });
    await assert.rejects(record(tf.train.sgd(1), [schedule]), /gave NaN at epoch 0/);
  });
});
