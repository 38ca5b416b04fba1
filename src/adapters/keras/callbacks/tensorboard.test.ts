import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { readEvents } from '../../../../test/support/read-events.ts';
import { TensorBoard } from './tensorboard.ts';

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

  test('other ranks write nothing', async () => {
    await train(join(folder, 'rank 1'), 1, 1 as never);
    assert.ok(!readdirSync(folder).includes('rank 1'));
  });

  test('wrong options are rejected', () => {
    const code = 'ERR_HVD_INVALID_ARGUMENT';
    assert.throws(() => new TensorBoard(''), { code });
    assert.throws(() => new TensorBoard({ logDir: 'x', updateFreq: 0 }), { code, message: /updateFreq/ });
  });
});
