// Model files together with tfjs-node, which has a file:// handler of its own. Run by the stage tfjs-node only.

import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { init, shutdown } from '../../../context/default/default-context.ts';
import { loadModel } from '../load-model.ts';
import { saveModel } from '../save-model.ts';
import { registerFileHandler } from './file-handler.ts';

const folder = mkdtempSync(join(tmpdir(), 'horovod-tfjs-node-'));
before(async () => {
  registerFileHandler(); // as a script does that imports horovod/keras first
  const name: string = '@tensorflow/tfjs-node'; // compiles also where it is not installed
  await import(name);
  await init();
});
after(async () => {
  await shutdown();
  rmSync(folder, { recursive: true });
});

async function trainedModel(): Promise<tf.LayersModel> {
  const model = tf.sequential({ layers: [tf.layers.dense({ units: 3, inputShape: [2] })] });
  model.compile({ optimizer: tf.train.adam(0.01), loss: 'meanSquaredError' });
  await model.fit(tf.ones([8, 2]), tf.ones([8, 3]), { epochs: 2, verbose: 0 });
  return model;
}

const weightsOf = (model: tf.LayersModel) => model.getWeights().map((weight) => [...weight.dataSync()]);

test('tfjs-node stays in charge of file://', () => {
  for (const handlers of [tf.io.getSaveHandlers('file://x'), tf.io.getLoadHandlers('file://x')]) {
    assert.deepEqual(
      handlers.map((handler) => handler.constructor.name),
      ['NodeFileSystem'],
    );
  }
});

test('it loads what we have saved, also over an older model, with the optimizer', async () => {
  const path = join(folder, 'ours');
  await saveModel(await trainedModel(), path);
  const model = await trainedModel();
  await saveModel(model, path);
  assert.deepEqual(readdirSync(path).sort(), ['model.json', 'weights.alternate.bin']);
  const loaded = await tf.loadLayersModel(`file://${path}/model.json`);
  assert.deepEqual(weightsOf(loaded), weightsOf(model));
  assert.equal(loaded.optimizer.iterations, 2);
});

test('we load what it has saved, with the optimizer', async () => {
  const model = await trainedModel();
  await model.save(`file://${folder}/theirs`, { includeOptimizer: true });
  const loaded = await loadModel(join(folder, 'theirs'));
  assert.deepEqual(weightsOf(loaded), weightsOf(model));
  assert.equal(loaded.optimizer.iterations, 2);
  assert.equal(loaded.optimizer.getClassName(), 'Adam');
});
