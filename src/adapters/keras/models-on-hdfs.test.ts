import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { type FakeHdfs, startFakeHdfs } from '../../../test/support/fake-hdfs.ts';
import { init, shutdown } from '../../context/default/default-context.ts';
import { defaultFiles } from '../../context/default/default-files.ts';
import { BestModelCheckpoint } from './callbacks/best-model-checkpoint.ts';
import { ModelCheckpoint } from './callbacks/model-checkpoint.ts';
import { TensorBoard } from './callbacks/tensorboard.ts';
import { lastSavedEpoch } from './last-saved-epoch.ts';
import { loadModel } from './load-model.ts';
import { registerFileHandler } from './model-files/file-handler.ts';
import { saveModel } from './save-model.ts';

let hdfs: FakeHdfs;
before(async () => {
  hdfs = await startFakeHdfs();
  process.env['HOROVOD_WEBHDFS'] = hdfs.namenode.host;
  await tf.setBackend('cpu');
  await init();
  registerFileHandler();
});
after(async () => {
  await shutdown();
  await defaultFiles().close();
  await hdfs[Symbol.asyncDispose]();
  delete process.env['HOROVOD_WEBHDFS'];
});

function makeModel(): tf.LayersModel {
  const model = tf.sequential({ layers: [tf.layers.dense({ units: 3, inputShape: [2] })] });
  model.compile({ optimizer: tf.train.adam(0.01), loss: 'meanSquaredError' });
  return model;
}

const weightsOf = (model: tf.LayersModel) => model.getWeights().map((weight) => [...weight.dataSync()]);
const namesIn = (folder: string) =>
  [...hdfs.files.keys()].filter((name) => name.startsWith(`${folder}/`)).sort();

test('saveModel() and loadModel(), save() and loadLayersModel() take hdfs:// URLs', async () => {
  const model = makeModel();
  for (const turn of [1, 2, 3]) {
    await saveModel(model, 'hdfs://nn/models/a');
    assert.equal(namesIn('/models/a').length, 2, `save ${turn} leaves two files`);
  }
  assert.deepEqual(weightsOf(await loadModel('hdfs://nn/models/a/model.json')), weightsOf(model));
  assert.deepEqual(weightsOf(await loadModel(new URL('hdfs://nn/models/a'))), weightsOf(model));
  await model.save('hdfs://nn/models/b');
  assert.deepEqual(weightsOf(await tf.loadLayersModel('hdfs://nn/models/b')), weightsOf(model));
});

test('a model that is not there, or cannot be written, has the text of HDFS', async () => {
  const code = 'ERR_HVD_MODEL_FILE';
  await assert.rejects(loadModel('hdfs://nn/none'), {
    code,
    message: `${code}: There is no model at hdfs://nn/none/model.json.`,
  });
  await assert.rejects(saveModel(makeModel(), 'gopher://host/x'), {
    code,
    message:
      /could not be written to gopher:\/\/host\/x: There is no file system for gopher:\/\/.*What was saved there before is untouched\.$/,
  });
});

test('checkpoints and event files of fit() go to HDFS', async () => {
  const model = makeModel();
  const root = 'hdfs://nn/run';
  await model.fit(tf.ones([8, 2]), tf.ones([8, 3]), {
    epochs: 3,
    verbose: 0,
    callbacks: [
      new ModelCheckpoint(`${root}/epoch-{epoch}`),
      new BestModelCheckpoint({ filepath: `${root}/best`, monitor: 'loss' }),
      new TensorBoard(`${root}/logs`),
    ],
  });
  assert.equal(await lastSavedEpoch(`${root}/epoch-{epoch}`), 3);
  assert.equal(await lastSavedEpoch('hdfs://nn/nowhere/epoch-{epoch}'), 0);
  assert.deepEqual(weightsOf(await loadModel(`${root}/epoch-3`)), weightsOf(model));
  assert.equal(namesIn('/run/best').length, 2);
  const [events, ...others] = namesIn('/run/logs/train');
  assert.deepEqual(others, []);
  assert.match(events ?? '', /tfevents/);
  const text = hdfs.files.get(events ?? '')?.toString('latin1') ?? '';
  assert.equal(text.split('epoch_loss').length - 1, 3);
});

test('ModelCheckpoint rejects a filepath that is none', () => {
  assert.throws(() => new ModelCheckpoint(''), { code: 'ERR_HVD_INVALID_ARGUMENT', message: /filepath/ });
  assert.throws(() => new ModelCheckpoint({} as never), {
    code: 'ERR_HVD_INVALID_ARGUMENT',
    message: /filepath/,
  });
});
