// fitOnParquet() with real ranks, on a store as Spark writes it.

import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import * as tf from '@tensorflow/tfjs';
import { loadModel } from '../../src/adapters/keras/load-model.ts';
import { HorovodError } from '../../src/errors.ts';
import { run } from '../../src/launch/run/run.ts';
import {
  type FitLauncher,
  type FitOnParquetOptions,
  fitOnParquet,
} from '../../src/launch/spark/fit-on-parquet.ts';
import { Store } from '../../src/launch/spark/store.ts';
import { fixturePath, repository } from '../support/repository.ts';

const folder = mkdtempSync(join(tmpdir(), 'horovod-store-'));
after(() => rmSync(folder, { recursive: true }));
const deadline = { timeout: 90_000 };

function newStore(name: string): Store {
  const path = join(folder, name);
  cpSync(fixturePath('spark/store/'), path, { recursive: true });
  return Store.create(path);
}

/** What the user's functions import is the package, so its file is called. `printed`: what the ranks print. */
const quietly =
  (printed: string[] = []): FitLauncher =>
  (module, { numProc, minNumProc, maxNumProc, ...job }) =>
    run(join(repository, 'dist/launch/spark', basename(fileURLToPath(module))), {
      ...job,
      np: numProc,
      minNp: minNumProc,
      maxNp: maxNumProc,
      showOutput: false,
      onOutput: (_rank, _stream, line) => void printed.push(line),
    });

function makeModel(): tf.LayersModel {
  const kernelInitializer = tf.initializers.glorotUniform({ seed: 3 });
  const model = tf.sequential({
    layers: [tf.layers.dense({ units: 1, inputShape: [4], kernelInitializer })],
  });
  model.compile({ optimizer: tf.train.adam(0.05), loss: 'meanSquaredError' });
  return model;
}

const common = {
  featureCols: ['a', 'b', 'v'],
  labelCols: ['y'],
  numProc: 2,
  batchSize: 16,
  backend: 'cpu',
  verbose: false,
} as const;

const weightsOf = (model: tf.LayersModel) => model.getWeights().map((weight) => [...weight.dataSync()]);

test(
  'a compiled model learns, and a second call goes on as if there had been no break',
  deadline,
  async () => {
    const [store, other] = [newStore('whole'), newStore('broken')];
    const train = (into: Store, epochs: number) =>
      fitOnParquet({
        ...common,
        model: makeModel(),
        store: into,
        epochs,
        validation: true,
        runId: 'run-1',
        run: quietly(),
      });
    const whole = await train(store, 6);
    assert.equal(whole.epochs, 6);
    const { loss = [], val_loss: validation = [] } = whole.history;
    assert.deepEqual([loss.length, validation.length], [6, 6]);
    assert.ok((validation.at(-1) as number) < (validation[0] as number) / 5, `${validation}`);
    assert.equal(whole.checkpoint, store.checkpointPath('run-1'));
    assert.ok(readdirSync(join(whole.logs, 'validation')).some((name) => name.includes('tfevents')));

    await train(other, 2);
    const resumed = await train(other, 6);
    assert.deepEqual(resumed.history, whole.history);
    const models = [await loadModel(whole.checkpoint), await loadModel(resumed.checkpoint)];
    assert.deepEqual(weightsOf(models[1] as tf.LayersModel), weightsOf(models[0] as tf.LayersModel));
    for (const model of models) model.dispose();

    const again = await fitOnParquet({
      ...common,
      model: makeModel(),
      store: other,
      epochs: 6,
      runId: 'run-1',
      run: () => assert.fail('nothing is left to do'),
    });
    assert.deepEqual([again.epochs, again.history], [6, whole.history]);
    assert.deepEqual(await other.runIds(), ['run-1']);
  },
);

test('an elastic job continues without a rank that was killed', deadline, async () => {
  const store = newStore('elastic');
  const printed: string[] = [];
  const result = await fitOnParquet({
    ...common,
    model: async () => {
      const tf = await import('@tensorflow/tfjs');
      const model = tf.sequential({
        layers: [
          tf.layers.dense({ units: 8, inputShape: [4], activation: 'relu' }),
          tf.layers.dense({ units: 2, activation: 'softmax' }),
        ],
      });
      const optimizer = tf.train.adam(0.02);
      model.compile({ optimizer, loss: 'sparseCategoricalCrossentropy', metrics: ['accuracy'] });
      return model;
    },
    callbacks: async () => {
      const hvd = await import('horovod/keras');
      const generation = hvd.elastic.generation();
      return [
        {
          onEpochBegin: async (epoch: number) => {
            console.log(`epoch ${epoch} on ${hvd.size()} of generation ${generation}`);
          },
          onBatchEnd: async (batch: number) => {
            if (generation === 1 && hvd.rank() === 1 && batch === 3) process.kill(process.pid, 'SIGKILL');
          },
        },
      ];
    },
    labelCols: ['c'],
    store,
    epochs: 5,
    validation: 0.2,
    batchesPerCommit: 1,
    runId: 'elastic',
    minNumProc: 1,
    maxNumProc: 2,
    run: quietly(printed),
  });
  assert.equal(result.epochs, 5);
  assert.equal(result.history['val_acc']?.length, 5, JSON.stringify(result.history));
  assert.ok((result.history['acc']?.at(-1) as number) > 0.8, JSON.stringify(result.history));
  const began = printed.filter((line) => line.startsWith('epoch 0'));
  assert.ok(
    began.some((line) => !line.endsWith('generation 1')),
    printed.join('\n'),
  );
});

test('what is wrong is said before a rank starts', async () => {
  const store = newStore('wrong');
  const never = () => assert.fail('a rank was started');
  const train = (options: Partial<FitOnParquetOptions>) =>
    fitOnParquet({ ...common, model: makeModel(), store, run: never, ...options } as FitOnParquetOptions);
  const wrong: [Partial<FitOnParquetOptions>, string, RegExp][] = [
    [{ labelCols: ['z'] }, 'ERR_HVD_DATA_FILE', /no column z\. The file has id, a, b, v, y, c/],
    [
      { store: Store.create(join(folder, 'empty')) },
      'ERR_HVD_DATA_FILE',
      /no training data.*df\.write\.parquet/,
    ],
    [{ validation: 'nowhere' }, 'ERR_HVD_DATA_FILE', /nowhere: there is no validation data/],
    [{ validation: 2 }, 'ERR_HVD_INVALID_ARGUMENT', /a fraction of the training data/],
    [{ store: folder as never }, 'ERR_HVD_INVALID_ARGUMENT', /expected a Store/],
    [{ callbacks: [] as never }, 'ERR_HVD_INVALID_ARGUMENT', /cannot be sent to other processes/],
    [{ model: './nothing.ts' }, 'ERR_HVD_INVALID_ARGUMENT', /model: the module .*nothing\.ts does not exist/],
    [{ model: tf.sequential() as never }, 'ERR_HVD_INVALID_ARGUMENT', /call model\.compile\(\)/],
    [{ runId: '../x' }, 'ERR_HVD_INVALID_ARGUMENT', /runId/],
    [{ epochs: 0 }, 'ERR_HVD_INVALID_ARGUMENT', /epochs is 0/],
    [{ numprocs: 2 } as never, 'ERR_HVD_INVALID_ARGUMENT', /there is no option numprocs/],
  ];
  for (const [options, code, message] of wrong) {
    await assert.rejects(train(options), (error: unknown) => {
      assert.ok(HorovodError.is(error), String(error));
      assert.equal(error.code, code, error.message);
      assert.match(error.message, message);
      return true;
    });
  }
  assert.ok(!existsSync(store.runsPath()));
});

test('columns that do not fill the inputs are named', deadline, async () => {
  const fit = fitOnParquet({
    ...common,
    model: makeModel(),
    store: newStore('shapes'),
    numProc: 1,
    featureCols: ['a', 'b'],
    run: quietly(),
  });
  await assert.rejects(fit, (error: unknown) => {
    assert.ok(HorovodError.is(error) && error.code === 'ERR_HVD_RUN', String(error));
    assert.match(String(error.cause ?? error), /has shape \[4\], and a row of a, b has 2 values/);
    return true;
  });
});
