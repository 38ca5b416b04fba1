import assert from 'node:assert/strict';
import { channel } from 'node:diagnostics_channel';
import { test } from 'node:test';
import { statusOf } from '../../../test/support/status-examples.ts';
import { ExposedTime } from './exposed-time.ts';
import { decodeRankStatus, encodeRankStatus } from './rank-status.ts';

const steps = channel('horovod.tensorflow.step');
const markOf = (step: number) => ({ step, samples: undefined, totalSamples: 0, atMs: step });

test('the time of communication is the average of the last hundred steps, every tenth step', () => {
  const shown: (number | undefined)[] = [];
  const exposed = new ExposedTime({ set: ({ exposedMsPerStep }) => void shown.push(exposedMsPerStep) });
  for (let step = 1; step <= 200; step++) {
    steps.publish({ exposedCommunicationMs: step <= 100 ? 4 : 8 });
    exposed.step(markOf(step));
  }
  exposed.close();
  assert.equal(shown.length, 20);
  assert.deepEqual([shown[0], shown[9], shown[14], shown[19]], [4, 4, 6, 8]);
  assert.ok(!steps.hasSubscribers, 'without a rank nothing is measured');
});

test('a rank whose framework says nothing shows nothing', () => {
  const exposed = new ExposedTime({ set: () => assert.fail('nothing is known') });
  for (let step = 1; step <= 20; step++) exposed.step(markOf(step));
  steps.publish({ forwardMs: 3 });
  exposed.step(markOf(30));
  exposed.close();
});

test('epochs, steps of all, communication and checkpoints travel with the status page', () => {
  const status = statusOf({
    exposedMsPerStep: 1.5,
    stepOf: 5000,
    epoch: 2,
    epochs: 9,
    checkpoint: { path: 'models/epoch-1', at: 1_000_000 },
  });
  assert.deepEqual(decodeRankStatus(encodeRankStatus(status, 4080).toString()), status);
  const long = statusOf({ checkpoint: { path: 'x'.repeat(4000), at: 1 } });
  const text = encodeRankStatus(long, 4080);
  assert.ok(text.length <= 4080);
  assert.equal(decodeRankStatus(text.toString())?.checkpoint?.path.length, 120);
  const damaged = { ...status, stepOf: -1, epoch: 'two', checkpoint: { path: 7 } };
  const read = decodeRankStatus(JSON.stringify(damaged));
  assert.deepEqual(
    [read?.stepOf, read?.epoch, read?.epochs, read?.checkpoint],
    [undefined, undefined, 9, undefined],
  );
});
