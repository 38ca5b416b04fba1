// A rank ends by itself, well or badly, while others wait for it: nobody hangs, and the first cause is what all report.
// Real processes, started as spawnRanks() does; HOROVOD_NATIVE chooses the transport, and CI runs this file with both.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startFaultJob } from '../support/fault-job.ts';

for (const form of ['sync', 'promise']) {
  describe(`others wait in a collective (${form})`, () => {
    test('a rank throws: they get its error with its stack as the cause', async (t) => {
      const job = startFaultJob(t, 3, 'ending.ts', { args: ['throw', form] });
      await job.allSaid([0, 1, 2], 'ready');
      for (const rank of [0, 2]) {
        const error = await job.said(rank, 'caught');
        assert.equal(error.code, 'ERR_HVD_PEER_LOST', error.message);
        assert.equal(error.rank, 1);
        assert.equal(error.pid, job.pid(1));
        assert.equal(error.exitCode, 1);
        assert.match(
          error.cause ?? '',
          /^RangeError: the learning rate went through the roof\n {4}at .*ending\.(js|ts)/,
        );
      }
      assert.equal((await job.ended()).exitCode, 1);
      const { stderr } = job.run;
      assert.match(stderr, /First failure:\n {2}rank 1 on localhost \(pid \d+\) exited with code 1\n/);
      assert.match(stderr, /First failure:(.|\n)*RangeError: the learning rate went through the roof/);
      // The launcher's own signal may come before the rank has ended by itself.
      assert.match(stderr, /Other ranks:\n {2}rank 0 .*(because it lost rank 1|was stopped by horovodrun)/);
      assert.equal(stderr.split('The job has failed').length, 2, 'one report');
    });

    test('an unhandled rejection has the same effect', async (t) => {
      const job = startFaultJob(t, 2, 'ending.ts', { args: ['reject', form] });
      const error = await job.said(0, 'caught');
      assert.equal(error.code, 'ERR_HVD_PEER_LOST', error.message);
      assert.match(error.cause ?? '', /^TypeError: a promise nobody looked after\n {4}at /);
      assert.equal((await job.ended()).exitCode, 1);
    });

    test('a rank exits with code 3: so does horovodrun', async (t) => {
      const job = startFaultJob(t, 3, 'ending.ts', { args: ['exit3', form] });
      for (const rank of [0, 2]) {
        const { code, exitCode, rank: lost } = await job.said(rank, 'caught');
        assert.deepEqual({ code, exitCode, lost }, { code: 'ERR_HVD_PEER_LOST', exitCode: 3, lost: 1 });
      }
      assert.equal((await job.ended()).exitCode, 3);
      assert.match(job.run.stderr, /First failure:\n {2}rank 1 .* exited with code 3\n/);
    });

    for (const way of ['exit0', 'return']) {
      test(`a rank exits normally (${way}) while others wait for it: they get an error, and the job fails`, async (t) => {
        const job = startFaultJob(t, 3, 'ending.ts', { args: [way, form] });
        for (const rank of [0, 2]) {
          const { code, exitCode, rank: lost, message } = await job.said(rank, 'caught');
          assert.deepEqual({ code, exitCode, lost }, { code: 'ERR_HVD_PEER_LOST', exitCode: 0, lost: 1 });
          assert.match(message ?? '', /exited with code 0 without calling shutdown\(\)/);
        }
        assert.equal((await job.ended()).exitCode, 5);
        assert.match(
          job.run.stderr,
          /First failure:\n {2}rank 1 on localhost \(pid \d+\) exited with code 0 without calling shutdown\(\), while other ranks needed it\n/,
        );
      });
    }

    test('a rank calls shutdown(): they get ERR_HVD_SHUT_DOWN that names it', async (t) => {
      const job = startFaultJob(t, 3, 'ending.ts', { args: ['shutdown', form] });
      for (const rank of [0, 2]) {
        const { code, rank: lost, message } = await job.said(rank, 'caught');
        assert.deepEqual({ code, lost }, { code: 'ERR_HVD_SHUT_DOWN', lost: 1 }, message);
        assert.match(message ?? '', /rank 1 \(pid \d+\) has shut down/);
      }
      assert.equal((await job.ended()).exitCode, 5);
    });
  });
}
