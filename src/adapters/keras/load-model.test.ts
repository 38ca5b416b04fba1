import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, mock, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import * as tf from '@tensorflow/tfjs';
import { init, shutdown } from '../../context/default/default-context.ts';
import { rangeDataset } from '../../data/sources.ts';
import { getLearningRate } from '../tensorflow/learning-rate.ts';
import { DistributedOptimizer, isDistributed } from '../tensorflow/optimizer/distributed-optimizer.ts';
import { BestModelCheckpoint } from './callbacks/best-model-checkpoint.ts';
import { loadModel } from './load-model.ts';
import { saveModel } from './save-model.ts';
import { savedDataState } from './saved-data-state.ts';

const folder = mkdtempSync(join(tmpdir(), 'horovod-load-model-'));
before(async () => {
  await tf.setBackend('cpu');
  await init();
});
after(async () => {
  await shutdown();
  rmSync(folder, { recursive: true });
});

const optimizers: Record<string, () => tf.Optimizer> = {
  sgd: () => tf.train.sgd(0.05),
  momentum: () => tf.train.momentum(0.05, 0.9),
  nesterov: () => tf.train.momentum(0.05, 0.9, true),
  adam: () => tf.train.adam(0.01, 0.9, 0.999),
  rmsprop: () => tf.train.rmsprop(0.01, 0.9, 0.5),
  'centred rmsprop': () => tf.train.rmsprop(0.001, 0.9, 0.5, 1e-3, true),
  adagrad: () => tf.train.adagrad(0.05),
  adadelta: () => tf.train.adadelta(0.05, 0.9),
};

function makeModel(optimizer: tf.Optimizer, seed = 1): tf.LayersModel {
  const kernel = () => tf.initializers.glorotUniform({ seed });
  const model = tf.sequential({
    layers: [
      tf.layers.dense({ units: 5, inputShape: [4], activation: 'tanh', kernelInitializer: kernel() }),
      tf.layers.batchNormalization(),
      tf.layers.dense({ units: 2, kernelInitializer: kernel() }),
    ],
  });
  model.compile({ optimizer: DistributedOptimizer(optimizer), loss: 'meanSquaredError', metrics: ['mae'] });
  return model;
}

const inputs = () => tf.randomUniform([24, 4], -1, 1, 'float32', 11);
const targets = () => tf.randomUniform([24, 2], -1, 1, 'float32', 12);

async function train(model: tf.LayersModel, epochs: number): Promise<void> {
  await model.fit(inputs(), targets(), { epochs, batchSize: 8, shuffle: false, verbose: 0 });
}

const weightsOf = (model: tf.LayersModel) => model.getWeights().map((weight) => [...weight.dataSync()]);

describe('resumed training equals uninterrupted training, to the bit', () => {
  for (const [name, make] of Object.entries(optimizers)) {
    test(name, async () => {
      const whole = makeModel(make());
      await train(whole, 9);
      const first = makeModel(make());
      await train(first, 5);
      const path = join(folder, `resumed ${name}`);
      await saveModel(first, path);
      const second = await loadModel(path);
      assert.equal(second.optimizer.iterations, 15);
      assert.equal(second.optimizer.getClassName(), first.optimizer.getClassName());
      assert.deepEqual(second.optimizer.getConfig(), first.optimizer.getConfig());
      assert.deepEqual(second.metricsNames, first.metricsNames);
      await train(second, 4);
      assert.deepEqual(weightsOf(second), weightsOf(whole));
    });
  }
});

describe('loadModel()', () => {
  test('takes a path, a file:// URL, a URL and a handler; the optimizer comes back wrapped', async () => {
    const model = makeModel(tf.train.adam(0.001));
    await train(model, 1);
    const path = join(folder, 'any place');
    await saveModel(model, path);
    const memory: { saved?: tf.io.ModelArtifacts } = {};
    await saveModel(
      model,
      tf.io.withSaveHandler(async (saved) => {
        memory.saved = saved;
        return { modelArtifactsInfo: tf.io.getModelArtifactsInfoForJSON(saved) };
      }),
    );
    const handler = tf.io.fromMemory(memory.saved as tf.io.ModelArtifacts);
    for (const place of [
      path,
      `${path}/model.json`,
      pathToFileURL(path).href,
      pathToFileURL(path),
      handler,
    ]) {
      const loaded = await loadModel(place);
      assert.ok(isDistributed(loaded.optimizer));
      assert.deepEqual(weightsOf(loaded), weightsOf(model));
      assert.equal(getLearningRate(loaded.optimizer), 0.001);
    }
  });

  test('options of DistributedOptimizer() are used', async () => {
    const path = join(folder, 'options');
    await saveModel(makeModel(tf.train.sgd(0.1)), path);
    const loaded = await loadModel(path, { backwardPassesPerStep: 3 });
    const before = weightsOf(loaded).slice(0, 2);
    await loaded.fit(inputs(), targets(), { epochs: 1, batchSize: 12, verbose: 0 });
    assert.deepEqual(weightsOf(loaded).slice(0, 2), before); // two passes of three
    await assert.rejects(loadModel(path, { backwardPassesPerStep: 0 }), { code: 'ERR_HVD_INVALID_ARGUMENT' });
  });

  test('a model saved without its optimizer loads without one', async () => {
    const path = join(folder, 'no optimizer');
    await saveModel(makeModel(tf.train.sgd(0.1)), path, { includeOptimizer: false });
    assert.equal((await loadModel(path)).optimizer, undefined);
  });

  test('layers and optimizers of the user are found by name, and forgotten afterwards', async () => {
    class Doubling extends tf.layers.Layer {
      static className = 'Doubling';
      override call(input: tf.Tensor | tf.Tensor[]) {
        return tf.mul(Array.isArray(input) ? (input[0] as tf.Tensor) : input, 2);
      }
    }
    class SlowSgd extends tf.SGDOptimizer {
      static override get className() {
        return 'SlowSgd';
      }
      static override fromConfig<T extends tf.serialization.Serializable>(
        cls: tf.serialization.SerializableConstructor<T>,
        config: tf.serialization.ConfigDict,
      ): T {
        return new cls(config['learningRate']);
      }
    }
    const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, inputShape: [4] }), new Doubling()] });
    model.compile({ optimizer: DistributedOptimizer(new SlowSgd(0.02)), loss: 'meanSquaredError' });
    const path = join(folder, 'custom');
    await saveModel(model, path);
    const loaded = await loadModel(path, { customObjects: { Doubling }, customOptimizers: { SlowSgd } });
    assert.equal(loaded.optimizer.getClassName(), 'SlowSgd');
    assert.ok(loaded.optimizer instanceof SlowSgd);
    assert.equal(getLearningRate(loaded.optimizer), 0.02);
    const [x] = [tf.ones([1, 4])];
    assert.deepEqual(
      [...(loaded.predict(x) as tf.Tensor).dataSync()],
      [...(model.predict(x) as tf.Tensor).dataSync()],
    );
    await assert.rejects(loadModel(path), /Unknown layer/);
  });

  test('what is no place is rejected', async () => {
    await assert.rejects(loadModel(7 as never), { code: 'ERR_HVD_INVALID_ARGUMENT' });
  });

  test('test_from_config: a wrapped optimizer is rebuilt from its configuration', () => {
    const optimizer = DistributedOptimizer(tf.train.rmsprop(0.01, 0.8, 0.25));
    const Class = optimizer.constructor as unknown as {
      fromConfig(cls: unknown, config: object): tf.Optimizer;
    };
    const again = Class.fromConfig(optimizer.constructor, optimizer.getConfig());
    assert.deepEqual(again.getConfig(), optimizer.getConfig());
    assert.equal(again.getClassName(), 'RMSProp');
  });
});

describe('saveModel()', () => {
  test('saving again and again leaves no tensors behind', async () => {
    const model = makeModel(tf.train.adam(0.001));
    await train(model, 1);
    const before = tf.memory().numTensors;
    for (let turn = 0; turn < 3; turn += 1) await saveModel(model, join(folder, 'again'));
    assert.equal(tf.memory().numTensors, before);
    assert.ok(!Object.hasOwn(model.optimizer, 'getWeights'));
  });

  test('the state of Adamax cannot be saved, and the error says what can', async () => {
    const model = makeModel(tf.train.adamax(0.001));
    await assert.rejects(saveModel(model, join(folder, 'adamax')), {
      code: 'ERR_HVD_UNSUPPORTED',
      message: /Adamax.*includeOptimizer: false/,
    });
    await saveModel(model, join(folder, 'adamax'), { includeOptimizer: false });
  });
});

describe('BestModelCheckpoint', () => {
  const epochs = async (callback: BestModelCheckpoint, values: number[], metric = 'val_loss') => {
    callback.setModel(makeModel(tf.train.sgd(0.1)) as never);
    await callback.onTrainBegin();
    for (const [epoch, value] of values.entries()) await callback.onEpochEnd(epoch, { [metric]: value });
  };
  const savedIn = (name: string) =>
    readdirSync(folder)
      .filter((entry) => entry.startsWith(`${name}-`))
      .sort();

  test('saves when the metric is the best so far', async () => {
    const filepath = join(folder, 'min-{epoch}');
    const callback = new BestModelCheckpoint({ filepath });
    await epochs(callback, [3, 2, Number.NaN, 2.5, 2, 1]);
    assert.deepEqual(savedIn('min'), ['min-1', 'min-2', 'min-6']);
    assert.equal(callback.best, 1);
  });

  test('more accuracy is better, by itself or as asked', async () => {
    await epochs(
      new BestModelCheckpoint({ filepath: join(folder, 'acc-{epoch}'), monitor: 'val_acc' }),
      [0.5, 0.4, 0.6],
      'val_acc',
    );
    assert.deepEqual(savedIn('acc'), ['acc-1', 'acc-3']);
    await epochs(
      new BestModelCheckpoint({ filepath: join(folder, 'max-{epoch}'), monitor: 'score', mode: 'max' }),
      [1, 2],
      'score',
    );
    assert.deepEqual(savedIn('max'), ['max-1', 'max-2']);
  });

  test('saves the place in the data with the model', async () => {
    const data = rangeDataset(0, 10).batch(3);
    const iterator = data.iterator();
    await iterator.next();
    await epochs(new BestModelCheckpoint({ filepath: join(folder, 'placed'), data }), [1]);
    await iterator.return();
    const state = await savedDataState(join(folder, 'placed'));
    assert.deepEqual(state, await data.state());
    assert.equal(state?.position, 3);
    await epochs(new BestModelCheckpoint({ filepath: join(folder, 'unplaced') }), [1]);
    assert.equal(await savedDataState(join(folder, 'unplaced')), undefined);
    await assert.rejects(savedDataState(join(folder, 'nowhere')), { code: 'ERR_HVD_MODEL_FILE' });
  });

  test('other ranks do nothing', async () => {
    const elsewhere = { rank: () => 1, size: () => 2 };
    await epochs(new BestModelCheckpoint({ filepath: join(folder, 'other-{epoch}') }, elsewhere), [3, 2]);
    assert.deepEqual(savedIn('other'), []);
  });

  test('says what it has saved if asked', async () => {
    const log = mock.method(console, 'log', () => {});
    try {
      await epochs(new BestModelCheckpoint({ filepath: join(folder, 'said'), verbose: 1 }), [3, 2.5]);
      assert.equal(
        log.mock.calls[1]?.arguments[0],
        `Epoch 2: val_loss improved from 3 to 2.5, model saved to ${join(folder, 'said')}`,
      );
    } finally {
      log.mock.restore();
    }
  });

  test('saveWeightsOnly leaves the optimizer out', async () => {
    await epochs(
      new BestModelCheckpoint({ filepath: join(folder, 'weights only'), saveWeightsOnly: true }),
      [1],
    );
    assert.equal((await loadModel(join(folder, 'weights only'))).optimizer, undefined);
  });

  test('wrong options and a metric that is not there are errors that say so', async () => {
    const code = 'ERR_HVD_INVALID_ARGUMENT';
    assert.throws(() => new BestModelCheckpoint({} as never), { code, message: /filepath/ });
    assert.throws(() => new BestModelCheckpoint({ filepath: 'x', mode: 'best' as never }), {
      code,
      message: /mode/,
    });
    await assert.rejects(epochs(new BestModelCheckpoint({ filepath: join(folder, 'x') }), [1], 'loss'), {
      code,
      message: /no metric "val_loss".*only loss/,
    });
  });

  test('Adamax is rejected before the first epoch, not after it', async () => {
    const callback = new BestModelCheckpoint({ filepath: join(folder, 'x') });
    callback.setModel(makeModel(tf.train.adamax(0.1)) as never);
    await assert.rejects(callback.onTrainBegin(), { code: 'ERR_HVD_UNSUPPORTED' });
  });
});
