// The training examples on three hosts, unchanged: the printed output is laid out as on one host, and each transport leaves the
// same weights on all ranks.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Box, canUseBox, startBox } from '../support/box.ts';
import { example, runOnBox, transportVariants } from '../support/box-jobs.ts';

const skip = canUseBox() ?? false;

describe('the training examples on three hosts', { skip }, () => {
  let box: Box;
  before(async () => {
    box = await startBox({ hosts: 3 });
  });
  after(() => box.close());

  test('model.fit() ends with an accuracy', async () => {
    const job = await runOnBox(box, example('keras/mnist.ts'), {
      hosts: 'host1:1,host2:1,host3:1',
      args: ['--epochs', '1', '--steps', '6', '--backend', 'wasm'],
    });
    assert.equal(job.exitCode, 0, `${job.stdout}\n${job.stderr}`);
    assert.match(job.stdout, /^\[0\]<stdout>:.*test accuracy +\d+\.\d+ %/m);
    await box.assertNothingLeft();
  });

  // With several ranks a host, where bytes go through shared memory and the network.
  for (const { transport, env, skip: why } of transportVariants()) {
    test(`the weights are the same on all ranks (${transport})`, { skip: why }, async () => {
      const job = await runOnBox(box, example('core/train-mlp.ts'), {
        hosts: 'host1:2,host2:2,host3:1',
        args: ['--epochs', '1', '--samples', '3000'],
        env,
      });
      assert.equal(job.exitCode, 0, `${job.stdout}\n${job.stderr}`);
      assert.match(job.stdout, /same weights on all 5 ranks/);
      await box.assertNothingLeft();
    });
  }
});
