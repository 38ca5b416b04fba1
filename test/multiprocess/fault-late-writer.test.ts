// A rank is stopped while it writes into the memory of another one, which gives up, uses the memory for something else and
// must find it untouched later. Real processes; the writer stops itself at the worst moment (test/fixtures/faults/late-writer.ts).

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { loadNative } from '../../src/transport/native/load.ts';
import { startFaultJob } from '../support/fault-job.ts';
import { assertStaysIntact, stoppedWriter } from '../support/late-writer.ts';

const skip =
  process.env['HOROVOD_NATIVE'] === '0' || !loadNative().built
    ? 'only the addon writes into the memory of other ranks'
    : false;

describe('what the survivor of a failure puts into its memory stays there, whoever was writing', {
  skip,
}, () => {
  for (const [memory, title] of [
    ['ordinary', 'an ordinary array (process_vm_writev)'],
    ['shared', 'alloc()'],
    ['heap', 'the adopted heap of the wasm backend'],
  ] as const) {
    test(title, (t) => assertStaysIntact(t, memory));
  }
});

test('the launcher kills a stopped writer that others have given up on, and does not call that the cause', {
  skip,
}, async (t) => {
  const job = startFaultJob(t, 2, 'late-writer.ts', { args: ['shared', '1500'] });
  await job.allSaid([0, 1], 'ready');
  await stoppedWriter(job);
  const error = await job.said(0, 'caught');
  assert.deepEqual(
    { code: error.code, rank: error.rank },
    { code: 'ERR_HVD_TIMEOUT', rank: 1 },
    error.message,
  );
  job.signal(0, 'SIGUSR2');
  assert.equal((await job.said(0, 'checked')).value, true);
  assert.equal((await job.ended()).exitCode, 1, job.run.stderr);
  const report = job.run.stderr.slice(job.run.stderr.indexOf('The job has failed'));
  assert.match(report, /^The job has failed\. First failure:\n {2}rank 0 .* exited with code 1\n/);
  assert.match(
    report,
    /rank 1 .* was stopped by horovodrun \(SIGKILL\): the job had failed, and it could still write/,
  );
});

describe('a stopped writer of an elastic job is ended before the others form the next generation', {
  skip,
  concurrency: 2,
}, () => {
  for (const memory of ['ordinary', 'shared', 'heap']) {
    test(`their memory stays as they leave it: ${memory}`, async (t) => {
      const flags = ['--min-np', '1', '--stopped-timeout', '0', '--cooldown-range', '0', '0'];
      const env = { HOROVOD_CMA: '1', HOROVOD_TIMEOUT_SECONDS: '1.5', HOROVOD_OVERLAP: 'never' };
      const job = startFaultJob(t, 2, 'elastic-late-writer.ts', { args: [memory], flags, env });
      await job.allSaid([0, 1], 'ready');
      await stoppedWriter(job);
      await job.said(0, 'again');
      assert.throws(() => job.signal(1, 'SIGCONT'), { code: 'ESRCH' });
      job.signal(0, 'SIGUSR2');
      assert.equal((await job.said(0, 'checked')).value, true);
      assert.equal((await job.ended()).exitCode, 0, job.run.stderr);
      assert.match(
        job.run.stderr,
        /rank 1 on localhost was ended by horovodrun \(SIGKILL\): it could still write into the memory of other ranks; 1 rank continues/,
      );
    });
  }
});
