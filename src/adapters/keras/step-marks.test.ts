// One training step is one mark on the step clock, however it is made, and callbacks of ours say how many samples it had.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { defaultContext, init, shutdown } from '../../context/default/default-context.ts';
import type { StepMark } from '../../engine/step-clock.ts';
import { Adasum } from '../../tensor/reduce-op.ts';
import { DistributedGradientTape } from '../tensorflow/optimizer/distributed-gradient-tape.ts';
import { DistributedOptimizer } from '../tensorflow/optimizer/distributed-optimizer.ts';
import type { DistributedOptimizerOptions } from '../tensorflow/optimizer/options.ts';
import { LearningRateScheduleCallback } from './callbacks/learning-rate-schedule.ts';
import { MetricAverageCallback } from './callbacks/metric-average.ts';

before(async () => {
  await tf.setBackend('cpu');
  await init();
});
after(() => shutdown());

/** The marks made meanwhile: how many samples each had. */
async function marksOf(run: () => unknown): Promise<StepMark['samples'][]> {
  const samples: StepMark['samples'][] = [];
  const end = defaultContext().steps.subscribe((mark) => samples.push(mark.samples));
  await run();
  end();
  return samples;
}

const forms: Record<string, DistributedOptimizerOptions> = {
  'an optimizer': {},
  'an optimizer with shards': { shardOptimizerState: true },
  'an optimizer with op Adasum': { op: Adasum },
};

for (const [title, options] of Object.entries(forms)) {
  describe(title, () => {
    const v = tf.variable(tf.ones([3]));
    const loss = () => tf.tidy(() => tf.sum(v) as tf.Scalar);

    test('marks each step of a loop once', async () => {
      const opt = DistributedOptimizer(tf.train.sgd(0.1), options);
      const marks = await marksOf(() => {
        opt.minimize(loss, false, [v]);
        const { value, grads } = tf.variableGrads(loss, [v]);
        opt.applyGradients(grads);
        tf.dispose([value, grads]);
      });
      assert.deepEqual(marks, [undefined, undefined]);
    });

    test('marks each batch of fit() once, with its samples, whatever callbacks there are', async () => {
      const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [2] })] });
      model.compile({
        optimizer: DistributedOptimizer(tf.train.adam(), options),
        loss: 'meanSquaredError',
      });
      const [x, y] = [tf.ones([7, 2]), tf.ones([7, 1])];
      const callbacks = () => [
        new MetricAverageCallback(),
        new LearningRateScheduleCallback({ initialLr: 0.1, multiplier: 1 }),
      ];
      const fitting = (args: tf.ModelFitArgs) => () =>
        model.fit(x, y, { batchSize: 3, epochs: 1, verbose: 0, ...args });
      assert.deepEqual(await marksOf(fitting({ callbacks: callbacks() })), [3, 3, 1]);
      assert.deepEqual(await marksOf(fitting({})), [undefined, undefined, undefined]);
      const dataset = tf.data.zip({
        xs: tf.data.array([[1, 2]]).repeat(4),
        ys: tf.data.array([[1]]).repeat(4),
      });
      const marks = await marksOf(() =>
        model.fitDataset(dataset.batch(2), { epochs: 1, verbose: 0, callbacks: callbacks() }),
      );
      assert.deepEqual(marks, [2, 2]);
      model.dispose();
    });
  });
}

test('passes that are summed up are one step, with the samples of all', async () => {
  for (const shardOptimizerState of [false, true]) {
    const optimizer = DistributedOptimizer(tf.train.sgd(0.1), {
      backwardPassesPerStep: 2,
      shardOptimizerState,
    });
    const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [2] })] });
    model.compile({ optimizer, loss: 'meanSquaredError' });
    const marks = await marksOf(() =>
      model.fit(tf.ones([8, 2]), tf.ones([8, 1]), {
        batchSize: 2,
        epochs: 1,
        verbose: 0,
        callbacks: [new MetricAverageCallback()],
      }),
    );
    assert.deepEqual(marks, [4, 4]);
  }
});

test('a tape marks each gradient', async () => {
  const v = tf.variable(tf.ones([3]));
  const loss = () => tf.tidy(() => tf.sum(v) as tf.Scalar);
  const tape = new DistributedGradientTape();
  const marks = await marksOf(async () => {
    await tape.gradient(loss, [v]);
    tape.gradientSync(loss, [v]);
    tape.getLocalAndGlobalGradients(loss, [v]);
  });
  assert.equal(marks.length, 3);
});

test('a step that fails is not marked', async () => {
  const opt = DistributedOptimizer(tf.train.sgd(0.1));
  const marks = await marksOf(() => {
    assert.throws(() => opt.applyGradients({ nobody: tf.scalar(1) }), /no such variable/);
  });
  assert.deepEqual(marks, []);
});
