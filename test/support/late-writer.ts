// Jobs of test/fixtures/faults/late-writer.ts.

import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sampleActivity } from '../../src/control/process-activity.ts';
import { assertEnded, type FaultJob, startFaultJob } from './fault-job.ts';

/** Resolves when rank 1 has stopped itself, with a write begun. */
export async function stoppedWriter(job: FaultJob): Promise<void> {
  const deadline = performance.now() + 60_000;
  while (sampleActivity(job.pid(1), 0)?.state !== 'T') {
    assert.ok(performance.now() < deadline, `rank 1 has not stopped\n${job.run.stdout}\n${job.run.stderr}`);
    await sleep(2);
  }
}

/** Rank 2 dies while rank 1 is stopped; rank 1 continues, if it still can, when rank 0 has used its memory again. */
export async function assertStaysIntact(t: TestContext, memory: string): Promise<void> {
  // Where shared memory is faster nobody would write into ordinary memory of others.
  const env = { HOROVOD_CMA: '1', HOROVOD_OVERLAP: 'never', TF_CPP_MIN_LOG_LEVEL: '2' };
  const job = startFaultJob(t, 3, 'late-writer.ts', { args: [memory], env });
  await job.allSaid([0, 1, 2], 'ready');
  await stoppedWriter(job);
  job.signal(2, 'SIGKILL');
  const error = await job.said(0, 'caught');
  assert.deepEqual(
    { code: error.code, rank: error.rank },
    { code: 'ERR_HVD_PEER_LOST', rank: 2 },
    error.message,
  );
  try {
    job.signal(1, 'SIGCONT');
  } catch (gone) {
    assert.equal((gone as NodeJS.ErrnoException).code, 'ESRCH');
  }
  await assertEnded(job.pid(1));
  job.signal(0, 'SIGUSR2');
  assert.equal((await job.said(0, 'checked')).value, true, 'rank 1 wrote into memory that was in use again');
  assert.notEqual((await job.ended()).exitCode, 0);
  assert.match(job.run.stderr, /First failure:\n {2}rank 2 .* was killed by SIGKILL/);
}
