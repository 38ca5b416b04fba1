import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { init, openContext, shutdown } from '../../../context/default/default-context.ts';
import { MetricAverageCallback } from './metric-average.ts';

before(async () => {
  await tf.setBackend('cpu');
  await init();
});
after(shutdown);

test('the metrics of fit() are shown in horovod status without a call', async () => {
  const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [2] })] });
  model.compile({ optimizer: 'sgd', loss: 'meanSquaredError', metrics: ['mse'] });
  const [x, y] = [tf.ones([8, 2]), tf.ones([8, 1])];
  const { history } = await model.fit(x, y, {
    epochs: 2,
    verbose: 0,
    validationData: [x, y],
    callbacks: [new MetricAverageCallback()],
  });
  const { epoch, epochs, stepOf } = openContext()?.status.extras ?? {};
  assert.deepEqual([epoch, epochs], [2, 2]);
  assert.equal(stepOf, (openContext()?.steps.step ?? 0) + 1, 'as known at the beginning of the last epoch');
  const shown = new Map(openContext()?.status.metrics.list);
  assert.deepEqual([...shown.keys()].sort(), ['loss', 'mse', 'val_loss', 'val_mse']);
  assert.equal(shown.get('loss'), history['loss']?.at(-1));
});
