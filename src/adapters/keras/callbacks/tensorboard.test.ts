import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { fieldsOf, readEvents } from '../../../../test/support/read-events.ts';
import type { RankFigures } from '../../context.ts';
import { TensorBoard, type TensorBoardOptions } from './tensorboard.ts';

const folder = mkdtempSync(join(tmpdir(), 'horovod-tensorboard-'));
after(() => rmSync(folder, { recursive: true }));

describe('the TensorBoard callback', () => {
  const train = async (logDir: string, rank: number, updateFreq: 'epoch' | number) => {
    const callback = new TensorBoard({ logDir, updateFreq }, { rank: () => rank, size: () => 2 });
    for (let epoch = 0; epoch < 2; epoch += 1) {
      for (let batch = 0; batch < 4; batch += 1) {
        await callback.onBatchEnd(batch, { batch, size: 8, loss: epoch * 4 + batch });
      }
      await callback.onEpochEnd(epoch, { loss: 0.5, lr: 0.125, val_loss: 0.75 });
    }
  };

  test('leaves no file open when fit() fails, or is over', {
    skip: !existsSync('/proc/self/fd'),
  }, async () => {
    const opened = () =>
      readdirSync('/proc/self/fd').filter((fd) => {
        const path = `/proc/self/fd/${fd}`;
        return existsSync(path) && readlinkSync(path).includes('tfevents');
      });
    await train(join(folder, 'failed'), 0, 1);
    assert.deepEqual(opened(), []);
  });

  test('rank 0 writes epochs, training and validation apart, and batches as often as asked', async () => {
    const logDir = join(folder, 'rank 0');
    await train(logDir, 0, 3);
    const training = readEvents(join(logDir, 'train')).slice(1);
    assert.deepEqual(
      training.map(({ step, scalars }) => [step, scalars]),
      [
        [2, { batch_loss: 2 }],
        [0, { epoch_loss: 0.5, epoch_lr: 0.125 }],
        [5, { batch_loss: 5 }],
        [1, { epoch_loss: 0.5, epoch_lr: 0.125 }],
      ],
    );
    const validation = readEvents(join(logDir, 'validation')).slice(1);
    assert.deepEqual(
      validation.map(({ scalars }) => scalars),
      [{ epoch_loss: 0.75 }, { epoch_loss: 0.75 }],
    );
  });

  /** Two epochs of a small model. */
  const trainModel = async (options: TensorBoardOptions, ranks: RankFigures[] = []) => {
    const callback = new TensorBoard(options, { rank: () => 0, size: () => 2 }, () => ranks);
    const model = tf.sequential({ layers: [tf.layers.dense({ units: 2, inputShape: [3], name: 'top' })] });
    model.compile({ optimizer: tf.train.sgd(0.25), loss: 'meanSquaredError' });
    await model.fit(tf.ones([8, 3]), tf.ones([8, 2]), {
      epochs: 2,
      batchSize: 4,
      verbose: 0,
      callbacks: callback,
    });
  };

  test('histograms of all weights come after as many epochs as asked for', async () => {
    const logDir = join(folder, 'histograms');
    await trainModel({ logDir, histogramFreq: 2 });
    const histograms = readEvents(join(logDir, 'train')).flatMap(({ step, values }) =>
      values
        .filter(({ plugin }) => plugin === 'histograms')
        .map(({ tag, tensor }) => ({ step, tag, shape: tensor?.shape, content: tensor?.content as Buffer })),
    );
    assert.deepEqual(
      histograms.map(({ step, tag, shape }) => [step, tag, shape]),
      [
        [1, 'top/kernel', [30, 3]],
        [1, 'top/bias', [30, 3]],
      ],
    );
    const counts = histograms.map(({ content }) => {
      let sum = 0;
      for (let at = 16; at < content.length; at += 24) sum += content.readDoubleLE(at);
      return sum;
    });
    assert.deepEqual(counts, [6, 2]);
  });

  test('hyperparameters are those that fit() knows and those given, and the session ends with training', async () => {
    const logDir = join(folder, 'hparams');
    await trainModel({ logDir, writeHparams: { dropout: 0.5, optimizer: 'mine' } });
    const [, start, end] = readEvents(logDir).map(({ values }) => values[0]);
    assert.deepEqual([start?.tag, end?.tag], ['_hparams_/session_start_info', '_hparams_/session_end_info']);
    const [info] = fieldsOf(start?.pluginContent as Buffer);
    const names = fieldsOf(info?.[1] as Buffer)
      .filter(([field]) => field === 1)
      .map(([, entry]) => String(fieldsOf(entry as Buffer)[0]?.[1]));
    assert.deepEqual(names, ['optimizer', 'ranks', 'learning_rate', 'batch_size', 'epochs', 'dropout']);
  });

  test('how the ranks do is a run of its own, with a chart for all ranks', async () => {
    const logDir = join(folder, 'system');
    const figures = { samplesPerSecond: 100, rssBytes: 3 * 2 ** 20 };
    await trainModel({ logDir, writeSystem: true }, [
      { ...figures, rank: 0, waitMs: 5, exposedMs: 7 },
      { ...figures, rank: 1, waitMs: undefined, exposedMs: undefined },
    ]);
    const [, layout, first] = readEvents(join(logDir, 'system'));
    assert.equal(layout?.values[0]?.plugin, 'custom_scalars');
    assert.deepEqual(first?.scalars, {
      'horovod/samples_per_second': 200,
      'horovod/memory_mib/rank_0': 3,
      'horovod/wait_ms/rank_0': 5,
      'horovod/exposed_ms/rank_0': 7,
      'horovod/memory_mib/rank_1': 3,
    });
    assert.equal(first?.step, 2, 'after two batches');
  });

  test('other ranks write nothing', async () => {
    await train(join(folder, 'rank 1'), 1, 1 as never);
    assert.ok(!readdirSync(folder).includes('rank 1'));
  });

  test('wrong options are rejected', () => {
    const code = 'ERR_HVD_INVALID_ARGUMENT';
    assert.throws(() => new TensorBoard(''), { code });
    assert.throws(() => new TensorBoard({ logDir: 'x', updateFreq: 0 }), { code, message: /updateFreq/ });
    assert.throws(() => new TensorBoard({ histogramFreq: 0.5 }), { code, message: /histogramFreq/ });
    assert.throws(() => new TensorBoard({ writeHparams: 'yes' as never }), { code, message: /writeHparams/ });
  });
});
