// A rank that is frozen, and waits that somebody ends: deadlines, aborts, stalls, deadlocks. What one rank gives up
// with, all get. Real processes, started as spawnRanks() does; HOROVOD_NATIVE chooses the transport, CI runs both.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { processStatus } from '../../src/control/process-status.ts';
import { type FaultJob, type Said, startFaultJob } from '../support/fault-job.ts';

/** Long enough that a busy machine gets everybody to the place where the deadline counts. */
const deadlineMs = 1500;

/** Freezes rank 2 with 0 and 1 inside; they give up. Thawed, it hears of it. */
async function freezeAndThaw(job: FaultJob): Promise<void> {
  await job.said(2, 'absent');
  job.signal(2, 'SIGSTOP');
  const errors = await job.allSaid([0, 1], 'caught');
  for (const { code, rank, message } of errors) {
    assert.deepEqual({ code, rank }, { code: 'ERR_HVD_TIMEOUT', rank: 2 }, message);
    assert.match(message ?? '', /rank 2 has not arrived/);
  }
  const later = await job.allSaid([0, 1], 'later');
  assert.deepEqual(messages(later), messages(errors), 'whatever they ask for afterwards');
  job.signal(2, 'SIGCONT');
  job.signal(2, 'SIGUSR2');
  assertOneOf(await job.said(2, 'caught'), errors);
}

/** Thawed, rank 2 hears of it; but if it was frozen in the middle of a write, the others have waited until it was killed. */
async function thawUnlessKilled(job: FaultJob, errors: readonly Said[]): Promise<void> {
  if (processStatus(job.pid(2)).state === 'ended') {
    await job.errorOutput(/rank 2 .* stopped by horovodrun \(SIGKILL\): .* could still write/);
    assert.equal((await job.ended()).exitCode, 1, job.run.stderr);
    assert.match(job.run.stderr, /First failure:\n {2}rank [01] .* exited with code 1/);
    return;
  }
  job.signal(2, 'SIGCONT');
  assertOneOf(await job.said(2, 'caught'), errors);
  await assertEndedWithoutCrash(job);
}

function messages(said: readonly Said[]): string[] {
  return said.map(({ message = '' }) => message);
}

/** Two ranks that give up in the same instant may each name itself as the one that waited; a third takes either. */
function assertOneOf(error: Said, errors: readonly Said[]): void {
  assert.ok(messages(errors).includes(error.message ?? ''), error.message);
}

async function assertEndedWithoutCrash(job: FaultJob): Promise<void> {
  assert.equal((await job.ended()).exitCode, 1, job.run.stderr);
  assert.doesNotMatch(job.run.stderr, /SIG(SEGV|BUS|ABRT|KILL)/);
}

/** Without the addon there are no quick ways: named, prepared and plain calls go the same one. */
function distinct(...forms: string[]): string[] {
  return process.env['HOROVOD_NATIVE'] === '0' ? ['sync', 'promise'] : forms;
}

describe('a frozen rank (SIGSTOP) is named when the deadline is over', { concurrency: 4 }, () => {
  for (const form of distinct('sync', 'syncNamed', 'preparedSync', 'promise', 'prepared')) {
    test(`timeoutMs of the call: ${form}`, async (t) => {
      const job = startFaultJob(t, 3, 'inside.ts', { args: [form, '2', String(deadlineMs)] });
      await job.allSaid([0, 1, 2], 'ready');
      await freezeAndThaw(job);
      await assertEndedWithoutCrash(job);
    });
  }

  test('in a process set: a rank outside of it gets the error, too', async (t) => {
    const job = startFaultJob(t, 4, 'inside.ts', { args: ['processSet', '2,3', String(deadlineMs)] });
    await job.allSaid([0, 1, 2, 3], 'ready');
    await freezeAndThaw(job);
    job.signal(3, 'SIGUSR2');
    assert.equal((await job.said(3, 'caught')).code, 'ERR_HVD_TIMEOUT');
    await assertEndedWithoutCrash(job);
  });

  for (const form of distinct('sync', 'preparedSync', 'promise')) {
    test(`HOROVOD_TIMEOUT_SECONDS: ${form}`, async (t) => {
      const env = { HOROVOD_TIMEOUT_SECONDS: String(deadlineMs / 1000) };
      const job = startFaultJob(t, 3, 'inside.ts', { args: [form, '2'], env });
      await job.allSaid([0, 1, 2], 'ready');
      await freezeAndThaw(job);
      await assertEndedWithoutCrash(job);
    });
  }

  for (const form of ['largeSync', 'largeShared', 'largePromise']) {
    test(`frozen in the middle of moving 64 MiB, thawed when the others have given up: ${form}`, async (t) => {
      const job = startFaultJob(t, 3, 'inside.ts', { args: [form, '-', String(deadlineMs)] });
      await job.allSaid([0, 1, 2], 'ready');
      await job.said(2, 'entered');
      job.signal(2, 'SIGSTOP');
      const errors = await job.allSaid([0, 1], 'caught');
      for (const { code, rank, message } of errors) {
        assert.deepEqual({ code, rank }, { code: 'ERR_HVD_TIMEOUT', rank: 2 }, message);
      }
      await thawUnlessKilled(job, errors);
    });
  }
});

test('an AbortSignal on an operation in flight ends it with the same error on all ranks', async (t) => {
  const job = startFaultJob(t, 4, 'abort.ts');
  await job.allSaid([0, 1, 2, 3], 'ready');
  await job.allSaid([0, 2], 'entered');
  await job.blocked(1);
  job.signal(0, 'SIGUSR2');
  const errors = await job.allSaid([0, 1, 2], 'caught');
  job.signal(3, 'SIGUSR2');
  errors.push(await job.said(3, 'caught'));
  for (const { code, rank, message } of errors) {
    assert.deepEqual({ code, rank }, { code: 'ERR_HVD_ABORTED', rank: 0 });
    assert.equal(message, errors[0]?.message);
  }
  assert.match(errors[1]?.cause ?? '', /no time for this/);
  assert.equal((await job.ended()).exitCode, 1);
});

describe('a stall', { concurrency: 4 }, () => {
  for (const form of distinct('sync', 'preparedSync', 'promise')) {
    test(`a warning on stderr names the missing rank, and the operation completes when it arrives: ${form}`, async (t) => {
      const env = { HOROVOD_STALL_CHECK_TIME_SECONDS: '1' };
      const job = startFaultJob(t, 3, 'inside.ts', { args: [form, '2'], env });
      await job.allSaid([0, 1, 2], 'ready');
      await job.errorOutput(/\[0\]<stderr>:.*has waited \d+ s: rank 2 has not called it/);
      job.signal(2, 'SIGUSR2');
      await job.allSaid([0, 1, 2], 'passed');
      assert.equal((await job.ended()).exitCode, 0);
    });

    test(`ends the job after HOROVOD_STALL_SHUTDOWN_TIME_SECONDS: ${form}`, async (t) => {
      const env = { HOROVOD_STALL_CHECK_TIME_SECONDS: '1', HOROVOD_STALL_SHUTDOWN_TIME_SECONDS: '2' };
      const job = startFaultJob(t, 3, 'inside.ts', { args: [form, '2'], env });
      await job.allSaid([0, 1, 2], 'ready');
      const errors = await job.allSaid([0, 1], 'caught');
      job.signal(2, 'SIGUSR2');
      errors.push(await job.said(2, 'caught'));
      for (const { code, rank, message } of errors) {
        assert.deepEqual({ code, rank }, { code: 'ERR_HVD_TIMEOUT', rank: 2 }, message);
        assert.match(
          message ?? '',
          /rank 2 has not called it.*longer than HOROVOD_STALL_SHUTDOWN_TIME_SECONDS/,
        );
      }
      assertOneOf(errors[2] as Said, errors.slice(0, 2));
      await assertEndedWithoutCrash(job);
    });
  }
});

test('every rank blocks in a different Sync call: all get the deadlock error at once and can continue', async (t) => {
  // The deadline is the default of half an hour: nobody waits for it.
  const job = startFaultJob(t, 3, 'deadlock.ts');
  for (const rank of [0, 1, 2]) {
    const { code, message } = await job.said(rank, 'caught');
    assert.equal(code, 'ERR_HVD_DEADLOCK', message);
    for (const each of [0, 1, 2]) assert.match(message ?? '', new RegExp(`rank ${each}.*"only ${each}"`));
  }
  for (const rank of [0, 1, 2]) assert.equal((await job.said(rank, 'value')).value, 3);
  assert.equal((await job.ended()).exitCode, 0, job.run.stderr);
});
