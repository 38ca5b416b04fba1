// Strangers at the launcher's port: garbage, half a message, far too much, the recorded words of a rank, a rank with a
// wrong secret. All are rejected, and the job does not notice. Real processes, started as spawnRanks() does.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startFaultJob } from '../support/fault-job.ts';

/** The launcher's greeting and at most a rejection: nothing that a stranger could use. */
const maxBytes = 256;

test('strangers at the port of a job that starts and runs are rejected, and the job does not notice', async (t) => {
  const job = startFaultJob(t, 3, 'intruder.ts');
  const before = (await job.said(0, 'attacked')).value as number[];
  const during = (await job.said(0, 'attacked', 2)).value as number[];
  const replayed = (await job.said(0, 'replayed')).value as number;
  for (const bytes of [...before, ...during, replayed])
    assert.ok(bytes <= maxBytes, `${bytes} bytes of answer`);

  const stranger = (await job.said(0, 'stranger')).value as string;
  assert.match(stranger, /caught .*"code":"ERR_HVD_RENDEZVOUS"/);
  assert.match(
    stranger,
    /rejected: another job, or a different secret\)\. Are _HOROVOD_SECRET_KEY, HOROVOD_JOB_ID and HOROVOD_RANK those of/,
  );
  assert.doesNotMatch(stranger, /abababab/, 'a secret is not shown, not even a wrong one');

  for (const rank of [0, 1, 2]) assert.equal((await job.said(rank, 'value')).value, 6);
  assert.equal((await job.ended()).exitCode, 0, job.run.stderr);
});
