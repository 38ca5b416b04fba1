// kill -9 of a rank that is inside a collective: every other rank learns who it was, and of what it died. Real
// processes, started as spawnRanks() does; HOROVOD_NATIVE chooses the transport, and CI runs this file with both.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type FaultJob, msBetween, type Said, startFaultJob } from '../support/fault-job.ts';

// Promised are 10 ms (native) and 1 s (portable). These are wide enough for a machine with more to do.
const boundMs: Record<string, number> = { shm: 1000, portable: 5000 };

for (const form of ['sync', 'syncNamed', 'preparedSync'] as const) {
  test(`a rank is killed while it blocks in a collective (${form})`, async (t) => {
    const job = startFaultJob(t, 3, 'inside.ts', { args: [form, '2'] });
    await job.allSaid([0, 1, 2], 'ready');
    await Promise.all([job.blocked(0), job.blocked(1)]);
    const killed = job.signal(1, 'SIGKILL');
    await assertToldInTime(job, killed, 1, [0]);
    // The third was doing something else; it hears of it with its next call.
    job.signal(2, 'SIGUSR2');
    await assertTold(job, 1, [2]);
    await assertReported(job, 1);
  });
}

for (const form of ['promise', 'barrier', 'prepared'] as const) {
  test(`a rank is killed while it awaits a collective (${form})`, async (t) => {
    const job = startFaultJob(t, 3, 'inside.ts', { args: [form, '2'] });
    await job.allSaid([0, 1, 2], 'ready');
    await job.allSaid([0, 1], 'entered');
    const killed = job.signal(1, 'SIGKILL');
    await assertToldInTime(job, killed, 1, [0]);
    job.signal(2, 'SIGUSR2');
    await assertTold(job, 1, [2]);
    await assertReported(job, 1);
  });
}

for (const form of ['largeSync', 'largePromise', 'largeShared', 'largePrepared'] as const) {
  test(`a rank is killed in the middle of moving 64 MiB (${form})`, async (t) => {
    // They do nothing else, so the signal arrives somewhere in the middle.
    const job = startFaultJob(t, 3, 'inside.ts', { args: [form, '-'] });
    await job.allSaid([0, 1, 2], 'ready');
    await job.said(0, 'entered');
    const killed = job.signal(2, 'SIGKILL');
    await assertToldInTime(job, killed, 2, [0, 1]);
    await assertReported(job, 2);
  });
}

test('a rank is killed in a collective of a process set: ranks outside the set get the error, too', async (t) => {
  const job = startFaultJob(t, 4, 'inside.ts', { args: ['processSet', '2,3'] });
  await job.allSaid([0, 1, 2, 3], 'ready');
  await Promise.all([job.blocked(0), job.blocked(1)]);
  const killed = job.signal(1, 'SIGKILL');
  await assertToldInTime(job, killed, 1, [0]);
  for (const rank of [2, 3]) job.signal(rank, 'SIGUSR2');
  await assertTold(job, 1, [2, 3]);
  await assertReported(job, 1);
});

for (const victim of [0, 1]) {
  test(`rank ${victim} is killed before init(): the ranks that wait there get the error`, async (t) => {
    const job = startFaultJob(t, 3, 'starting.ts', { args: [String(victim)] });
    const pid = (await job.said(victim, 'ready')).pid as number;
    const others = [0, 1, 2].filter((rank) => rank !== victim);
    await job.allSaid(others, 'entering');
    process.kill(pid, 'SIGKILL');
    for (const rank of others) assertLost(await job.said(rank, 'caught'), victim, pid);
    await assertReported(job, victim);
  });
}

test('a rank is killed inside init(), after its introduction', async (t) => {
  const job = startFaultJob(t, 3, 'starting.ts', { args: ['2'] });
  await job.allSaid([0, 1, 2], 'ready');
  await job.allSaid([0, 1], 'entered');
  job.signal(1, 'SIGKILL');
  job.signal(2, 'SIGUSR2');
  for (const rank of [0, 2]) assertLost(await job.said(rank, 'caught'), 1, job.pid(1));
  await assertReported(job, 1);
});

async function assertToldInTime(
  job: FaultJob,
  killedNs: bigint,
  victim: number,
  ranks: readonly number[],
): Promise<void> {
  const { transport = '' } = await job.said(victim, 'ready');
  for (const rank of ranks) {
    const lateMs = msBetween(killedNs, await job.said(rank, 'caught'));
    assert.ok(lateMs < (boundMs[transport] as number), `rank ${rank} on ${transport} took ${lateMs} ms`);
  }
  await assertTold(job, victim, ranks);
}

/** Each has caught the loss, and gets the same answer whatever it asks for afterwards. */
async function assertTold(job: FaultJob, victim: number, ranks: readonly number[]): Promise<void> {
  for (const rank of ranks) {
    assertLost(await job.said(rank, 'caught'), victim, job.pid(victim));
    assertLost(await job.said(rank, 'later'), victim, job.pid(victim));
  }
}

function assertLost(error: Said, rank: number, pid: number): void {
  const { code, signal, message } = error;
  assert.deepEqual(
    { code, rank: error.rank, pid: error.pid, signal },
    { code: 'ERR_HVD_PEER_LOST', rank, pid, signal: 'SIGKILL' },
    message,
  );
}

async function assertReported(job: FaultJob, victim: number): Promise<void> {
  assert.equal((await job.ended()).exitCode, 137, job.run.stderr);
  assert.match(job.run.stderr, new RegExp(`First failure:\n {2}rank ${victim} .*was killed by SIGKILL`));
}
