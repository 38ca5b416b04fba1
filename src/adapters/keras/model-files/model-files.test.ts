import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import * as tf from '@tensorflow/tfjs';
import { pathOf } from '../../../files/location.ts';
import { fileHandler, registerFileHandler } from './file-handler.ts';

let folder: string;
before(async () => {
  await tf.setBackend('cpu');
  registerFileHandler();
});
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'horovod-model-files-'));
});
after(() => {
  for (const name of readdirSync(tmpdir())) {
    if (name.startsWith('horovod-model-files-')) rmSync(join(tmpdir(), name), { recursive: true });
  }
});

function makeModel(units = 3): tf.Sequential {
  const model = tf.sequential({ layers: [tf.layers.dense({ units, inputShape: [2], activation: 'relu' })] });
  model.compile({ optimizer: tf.train.adam(0.01), loss: 'meanSquaredError', metrics: ['mae'] });
  return model;
}

const weightsOf = (model: tf.LayersModel) => model.getWeights().map((weight) => [...weight.dataSync()]);

describe('file:// in TensorFlow.js', () => {
  test('a model saved by save() loads with loadLayersModel(), by folder and by file', async () => {
    const model = makeModel();
    await model.save(`file://${folder}/model`);
    assert.deepEqual(readdirSync(join(folder, 'model')).sort(), ['model.json', 'weights.bin']);
    for (const url of [`file://${folder}/model/model.json`, `file://${folder}/model`]) {
      assert.deepEqual(weightsOf(await tf.loadLayersModel(url)), weightsOf(model));
    }
  });

  test('the files are laid out as TensorFlow.js writes them', async () => {
    const model = makeModel();
    await model.save(`file://${folder}`, { includeOptimizer: true });
    const json = JSON.parse(readFileSync(join(folder, 'model.json'), 'utf8'));
    assert.equal(json.format, 'layers-model');
    assert.equal(json.trainingConfig.optimizer_config.class_name, 'Adam');
    assert.deepEqual(json.weightsManifest[0].paths, ['weights.bin']);
    // Read by TensorFlow.js's own loader from the two files, as a server or tfjs-node would hand them over.
    const bytes = readFileSync(join(folder, 'weights.bin'));
    const { weightsManifest, ...description } = json;
    const artifacts: tf.io.ModelArtifacts = {
      ...description,
      weightSpecs: weightsManifest[0].weights,
      weightData: new Uint8Array(bytes).buffer,
    };
    assert.deepEqual(weightsOf(await tf.loadLayersModel(tf.io.fromMemory(artifacts))), weightsOf(model));
  });

  test('registering again adds nothing, and another handler for file:// takes over', async () => {
    registerFileHandler();
    assert.equal(tf.io.getSaveHandlers('file://x').length, 1);
    assert.equal(tf.io.getLoadHandlers('file://x').length, 1);
    assert.equal(tf.io.getSaveHandlers('http://x/y').filter((handler) => 'writeModel' in handler).length, 0);
    const other = { save: async () => ({ modelArtifactsInfo: {} as never }) };
    let isThere = true;
    tf.io.registerSaveRouter((url) =>
      isThere && String(url).startsWith('file://') ? other : (null as never),
    );
    try {
      assert.deepEqual(tf.io.getSaveHandlers('file://x'), [other]);
    } finally {
      isThere = false;
    }
    assert.equal(tf.io.getSaveHandlers('file://x').length, 1);
  });

  test('saving and loading leave no tensors behind', async () => {
    const model = makeModel();
    const before = tf.memory().numTensors;
    await model.save(`file://${folder}`);
    (await tf.loadLayersModel(`file://${folder}`)).dispose();
    assert.equal(tf.memory().numTensors, before);
  });
});

describe('names', () => {
  for (const name of ['with space', 'per cent 50%', 'ünïcode', 'hash#tag', 'what?', 'plus+and&']) {
    test(`a folder called "${name}" works as path, as URL and as file:// text`, async () => {
      const model = makeModel();
      const path = join(folder, name);
      await model.save(fileHandler(path));
      assert.ok(existsSync(join(path, 'model.json')));
      const places = [path, pathToFileURL(path), pathToFileURL(path).href, `file://${path}`];
      for (const place of places) {
        const loaded = await tf.loadLayersModel(fileHandler(place));
        assert.deepEqual(weightsOf(loaded), weightsOf(model));
      }
    });
  }

  test('a relative file:// path is relative to the working directory', () => {
    assert.equal(pathOf('file://./models/a'), join(process.cwd(), 'models/a'));
    assert.equal(pathOf(`file://${relative(process.cwd(), folder)}`), folder);
  });

  test('what tfjs-node has saved under a name with %20 in it is found', async () => {
    mkdirSync(join(folder, 'my%20model'));
    assert.equal(pathOf(`file://${folder}/my%20model`), join(folder, 'my%20model'));
    mkdirSync(join(folder, 'my model'));
    assert.equal(pathOf(`file://${folder}/my%20model`), join(folder, 'my model'));
  });

  test('no path is rejected', () => {
    const code = 'ERR_HVD_INVALID_ARGUMENT';
    assert.throws(() => fileHandler(''), { code });
    assert.throws(() => fileHandler('file://'), { code });
  });
});

describe('saving over a model', () => {
  test('leaves the two files of the newest model, whatever was there', async () => {
    for (const units of [1, 2, 3, 4]) {
      const model = makeModel(units);
      await model.save(fileHandler(folder));
      assert.equal(readdirSync(folder).length, 2);
      assert.deepEqual(weightsOf(await tf.loadLayersModel(fileHandler(folder))), weightsOf(model));
    }
  });

  test('a crash before the switch leaves the old model', async () => {
    const old = makeModel();
    await old.save(fileHandler(folder));
    // What a save leaves behind that ended after the weights, or in the middle of model.json.
    writeFileSync(join(folder, 'weights.alternate.bin'), 'half');
    writeFileSync(join(folder, 'model.json.1.abc.tmp'), '{"modelTo');
    assert.deepEqual(weightsOf(await tf.loadLayersModel(fileHandler(folder))), weightsOf(old));
    const next = makeModel();
    await next.save(fileHandler(folder));
    assert.deepEqual(weightsOf(await tf.loadLayersModel(fileHandler(folder))), weightsOf(next));
  });

  test('models read while others are written are always whole', async () => {
    const models = [makeModel(1), makeModel(2)];
    const known = models.map((model) => JSON.stringify(weightsOf(model)));
    await models[0]?.save(fileHandler(folder));
    let isWriting = true;
    const write = async () => {
      for (let turn = 0; turn < 12; turn += 1) await models[turn % 2]?.save(fileHandler(folder));
      isWriting = false;
    };
    const read = async () => {
      let count = 0;
      for (; isWriting; count += 1) {
        const loaded = await tf.loadLayersModel(fileHandler(folder));
        assert.ok(known.includes(JSON.stringify(weightsOf(loaded))));
      }
      return count;
    };
    const [, count] = await Promise.all([write(), read()]);
    assert.ok(count > 0);
  });

  test('a folder that cannot be written is an error with its path, and nothing is left in it', async () => {
    writeFileSync(join(folder, 'file'), '');
    await assert.rejects(makeModel().save(fileHandler(join(folder, 'file', 'model'))), {
      code: 'ERR_HVD_MODEL_FILE',
      message: /could not be written to .*file\/model/,
    });
  });
});

describe('a model that cannot be loaded', () => {
  const code = 'ERR_HVD_MODEL_FILE';
  const load = () => tf.loadLayersModel(fileHandler(folder));

  test('because it is not there', async () => {
    await assert.rejects(load(), { code, message: /There is no model at .*model\.json/ });
  });

  test('because model.json is cut off', async () => {
    await makeModel().save(fileHandler(folder));
    const path = join(folder, 'model.json');
    writeFileSync(path, readFileSync(path, 'utf8').slice(0, 100));
    await assert.rejects(load(), { code, message: /it is not JSON/ });
  });

  test('because model.json is something else', async () => {
    writeFileSync(join(folder, 'model.json'), '{"name": "package"}');
    await assert.rejects(load(), { code, message: /not a TensorFlow\.js model/ });
  });

  test('because its weights are missing', async () => {
    await makeModel().save(fileHandler(folder));
    rmSync(join(folder, 'weights.bin'));
    await assert.rejects(load(), { code, message: /weights\.bin cannot be read/ });
  });

  test('because its weights are truncated: the error has the number of bytes', async () => {
    await makeModel().save(fileHandler(folder));
    const path = join(folder, 'weights.bin');
    writeFileSync(path, readFileSync(path).subarray(0, 30));
    await assert.rejects(load(), { code, message: /has 30 bytes where the model has 36: it is truncated/ });
  });

  test('because a bit of its weights has flipped', async () => {
    await makeModel().save(fileHandler(folder));
    const path = join(folder, 'weights.bin');
    const bytes = readFileSync(path);
    bytes[7] = (bytes[7] as number) ^ 1;
    writeFileSync(path, bytes);
    await assert.rejects(load(), { code, message: /checksum differs/ });
  });
});
