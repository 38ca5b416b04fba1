// --encrypt between real hosts, with somebody who listens on the network.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Box, canUseBox, startBox } from '../support/box.ts';
import {
  assertReports,
  clusterFixture,
  runOnBox,
  startOnBox,
  transportVariants,
} from '../support/box-jobs.ts';
import { reportCases } from '../support/case-jobs.ts';
import { fixturePath, repository } from '../support/repository.ts';

const skip = canUseBox() ?? false;
const transports = transportVariants().filter(({ transport }) => /tcp|portable/.test(transport));
const text = 'what only the ranks may know. ';
const hosts = 'host1:1,host2:1';

describe('encrypted hosts', { skip }, () => {
  let box: Box;
  before(async () => {
    box = await startBox({ hosts: 2 });
  });
  after(() => box.close());

  for (const { transport, env, skip: why } of transports) {
    test(`${transport}: who listens on the network reads the tensors without --encrypt only`, {
      skip: why,
    }, async () => {
      for (const flags of [['--verbose'], ['--verbose', '--encrypt']]) {
        const finder = join(repository, 'test/cluster/find-on-wire.py');
        const listener = box.start('host2', ['python3', finder, 'eth0', text]);
        await listener.waitForOutput(/listening/);
        const job = await runOnBox(box, clusterFixture('secret-tensor.ts'), {
          hosts,
          flags,
          env,
          args: [text],
        });
        assert.equal(job.exitCode, 0, job.stderr);
        assert.match(job.stdout, new RegExp(`"transport":"${transport}"`));
        const isEncrypted = flags.includes('--encrypt');
        assert.equal(/rendezvous at \S+, tensors encrypted between hosts/.test(job.stderr), isEncrypted);
        listener.kill('SIGTERM');
        const { stdout } = await listener.ended;
        const [, found, passed] = /(not seen|seen) (\d+)/.exec(stdout) ?? [];
        assert.equal(found, isEncrypted ? 'not seen' : 'seen', stdout);
        assert.ok(Number(passed) > text.length * 50_000, 'all of the traffic was listened to');
      }
      await box.assertNothingLeft();
    });
  }

  test('every collective gives the same results, with two ranks per host', {
    skip: transports[0]?.skip ?? false,
  }, async (t) => {
    const options = { hosts: 'host1:2,host2:2', flags: ['--encrypt'], timeoutMs: 240_000 };
    const job = await runOnBox(box, fixturePath('cluster/hosts-cases.ts'), options);
    await reportCases(t, job, { transport: 'tcp', cases: 'cluster/hosts-cases' });
    await box.assertNothingLeft();
  });

  test('a rank with and one without it end the start, and the error names both', async () => {
    const script = clusterFixture('secret-tensor.ts');
    const command = `HOROVOD_ENCRYPT=$HOROVOD_RANK exec "$0" "$1" text`;
    const args = ['-c', command, process.execPath, script];
    const started = startOnBox(box, 'sh', { hosts, args });
    const result = await started.endedWithin(60_000);
    assertReports(result);
    assert.match(
      result.stdout,
      /"ERR_HVD_SETTING".*rank 1 on host2 has HOROVOD_ENCRYPT=1, but rank 0 on host1 does not/,
    );
    await box.assertNothingLeft();
  });
});
