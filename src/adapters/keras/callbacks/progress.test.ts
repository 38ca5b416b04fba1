import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FitLogs, Membership } from './horovod-callback.ts';
import { ProgressCallback, type ProgressOptions } from './progress.ts';

/** Two epochs of four batches of 32 samples, half a second each. */
async function run(
  stream: { isTTY?: boolean; columns?: number },
  options: Partial<ProgressOptions> = {},
  membership: Membership = { rank: () => 0, size: () => 2 },
  params: object = { epochs: 2, samples: 128, batchSize: 32 },
  validationMs = { inLastBatch: 0, afterLastBatch: 0 },
  epochLogs: FitLogs = { loss: 0.25, acc: 0.875 },
): Promise<string> {
  let text = '';
  let now = 1000;
  const write = (piece: string) => {
    text += piece;
  };
  const progress = new ProgressCallback(
    { stream: { ...stream, write }, now: () => now, ...options },
    membership,
  );
  progress.setParams(params as never);
  for (let epoch = 0; epoch < 2; epoch += 1) {
    await progress.onEpochBegin(epoch);
    for (let batch = 0; batch < 4; batch += 1) {
      now += 500 + (batch === 3 ? validationMs.inLastBatch : 0);
      await progress.onBatchEnd(batch, { batch, size: 32, loss: 0.5 } as FitLogs);
    }
    now += validationMs.afterLastBatch;
    await progress.onEpochEnd(epoch, { ...epochLogs });
  }
  return text;
}

test('into a pipe: a line every few seconds and one per epoch, with the rate of all ranks', async () => {
  assert.deepEqual((await run({}, { intervalMs: 1000 })).split('\n'), [
    'Epoch 1/2  2/4  loss 0.5  128 samples/s  ETA 0:01',
    'Epoch 1/2  0:02  128 samples/s  loss 0.25  acc 0.875',
    'Epoch 2/2  2/4  loss 0.5  128 samples/s  ETA 0:01',
    'Epoch 2/2  0:02  128 samples/s  loss 0.25  acc 0.875',
    '',
  ]);
});

test('a terminal without columns, as mpirun gives its ranks, is a pipe', async () => {
  const options = { intervalMs: 1000 };
  assert.equal(await run({ isTTY: true, columns: 0 }, options), await run({}, options));
});

test('by default a pipe gets a line every five seconds: here only the epochs', async () => {
  assert.equal((await run({})).split('\n').length, 3);
});

test('on a terminal: one line, written anew, never longer than the terminal is wide', async () => {
  const text = await run({ isTTY: true, columns: 60 });
  const lines = text.split('\r\x1b[2K').slice(1);
  assert.equal(lines.length, 8);
  assert.match(lines[1] as string, /^Epoch 1\/2 {2}\[=+> +\] {2}2\/4/);
  for (const line of lines) assert.ok(line.length < 60);
  assert.match(lines[1] as string, /ETA 0:01$/);
  assert.equal(text.split('\n').length, 3);
});

test('on a narrow terminal the bar is left out before anything else', async () => {
  const [, line] = (await run({ isTTY: true, columns: 50 })).split('\r\x1b[2K');
  assert.equal(line, 'Epoch 1/2  1/4  loss 0.5  128 samples/s  ETA 0:02');
});

test('metrics of training come before those of validation', async () => {
  const logs = { val_loss: 2, val_acc: 0.5, loss: 1, acc: 0.25, lr: 0.1 };
  const text = await run({}, {}, undefined, undefined, undefined, logs);
  assert.match(text, /loss 1 {2}acc 0.25 {2}lr 0.1 {2}val_loss 2 {2}val_acc 0.5\n/);
});

test('other ranks are quiet', async () => {
  assert.equal(await run({}, { intervalMs: 0 }, { rank: () => 1, size: () => 2 }), '');
});

test('where the number of steps is unknown the step is shown, and no time left', async () => {
  const [first] = (await run({}, { intervalMs: 0, unit: 'words' }, undefined, { epochs: 2 })).split('\n');
  assert.equal(first, 'Epoch 1/2  step 1  loss 0.5  128 words/s');
});

test('the time of validation is not taken for training', async () => {
  const fit = { epochs: 2, samples: 128, batchSize: 32, doValidation: true };
  const dataset = { epochs: 2, steps: 4, doValidation: true };
  const expected = 'Epoch 2/2  0:12  128 samples/s  loss 0.25  acc 0.875';
  const lines = async (params: object, validationMs: { inLastBatch: number; afterLastBatch: number }) =>
    (await run({}, {}, undefined, params, validationMs)).split('\n');
  assert.equal((await lines(fit, { inLastBatch: 10_000, afterLastBatch: 0 }))[1], expected);
  assert.equal((await lines(dataset, { inLastBatch: 0, afterLastBatch: 10_000 }))[1], expected);
});
