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
    'Epoch 1/2  step 2 of 4  loss 0.5  128 samples/s  0:03 left',
    'Epoch 1/2  0:02  128 samples/s  loss 0.25  acc 0.875',
    'Epoch 2/2  step 2 of 4  loss 0.5  128 samples/s  0:01 left',
    'Epoch 2/2  0:02  128 samples/s  loss 0.25  acc 0.875',
    '',
  ]);
});

test('a terminal without columns, as mpirun gives its ranks, is a pipe', async () => {
  const options = { intervalMs: 1000 };
  assert.equal(await run({ isTTY: true, columns: 0 }, options), await run({}, options));
});

test('by default a pipe gets no line between epochs of two seconds', async () => {
  assert.equal((await run({})).split('\n').length, 3);
});

test('in a pipe, a long epoch gets lines at longer and longer intervals, at least one a minute', async () => {
  let now = 0;
  const at: number[] = [];
  const stream = { write: () => at.push(now / 1000) };
  const progress = new ProgressCallback({ stream, now: () => now }, { rank: () => 0, size: () => 1 });
  progress.setParams({ epochs: 1, steps: 1000 } as never);
  await progress.onEpochBegin(0);
  for (let batch = 0; batch < 300; batch += 1) {
    now += 1000;
    await progress.onBatchEnd(batch, { batch, size: 1 } as FitLogs);
  }
  assert.deepEqual(at, [5, 15, 35, 75, 135, 195, 255]);
});

test('the time left is that of all epochs, with their validation once it is known, without the slow first step', async () => {
  let now = 0;
  const lines: string[] = [];
  const stream = { write: (line: string) => lines.push(/(\S+) left/.exec(line)?.[1] ?? '') };
  const options = { stream, now: () => now, intervalMs: 0 };
  const progress = new ProgressCallback(options, { rank: () => 0, size: () => 1 });
  progress.setParams({ epochs: 3, steps: 4 } as never);
  for (let epoch = 0; epoch < 2; epoch += 1) {
    await progress.onEpochBegin(epoch);
    for (let batch = 0; batch < 4; batch += 1) {
      now += epoch === 0 && batch === 0 ? 60_000 : 1000;
      await progress.onBatchEnd(batch, { batch, size: 1 } as FitLogs);
    }
    now += 17_000;
    await progress.onEpochEnd(epoch, {});
  }
  // The first epoch took 60 + 3 + 17 s.
  assert.deepEqual(lines, ['11:00', '0:10', '0:09', '', '1:23', '1:22', '1:21', '']);
});

test('it names a rank that the others wait for, and looks for one every second', async () => {
  let looks = 0;
  const membership: Membership = {
    rank: () => 0,
    size: () => 2,
    lateRank: () => (++looks > 1 ? { rank: 1, lateMs: 42.6 } : undefined),
  };
  const lines = (await run({}, { intervalMs: 0 }, membership)).split('\n');
  assert.equal(lines[0], 'Epoch 1/2  step 1 of 4  loss 0.5  128 samples/s  0:04 left');
  assert.equal(lines[2], 'Epoch 1/2  step 3 of 4  loss 0.5  128 samples/s  0:03 left  rank 1 is 43 ms late');
  // At 0.5, 1.5, 2.5 and 3.5 s.
  assert.equal(looks, 4);
});

test('on a terminal: one line, written anew, never longer than the terminal is wide', async () => {
  const text = await run({ isTTY: true, columns: 80 });
  const lines = text.split('\r\x1b[2K').slice(1);
  assert.equal(lines.length, 8);
  assert.match(lines[1] as string, /^Epoch 1\/2 {2}\[=+> +\] {2}step 2 of 4/);
  for (const line of lines) assert.ok(line.length < 80);
  assert.match(lines[1] as string, /0:03 left$/);
  assert.equal(text.split('\n').length, 3);
});

test('on a narrow terminal the bar is left out before anything else', async () => {
  const [, line] = (await run({ isTTY: true, columns: 59 })).split('\r\x1b[2K');
  assert.equal(line, 'Epoch 1/2  step 1 of 4  loss 0.5  128 samples/s  0:04 left');
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
