// The launcher is killed or told to end while ranks are where signals reach them badly: inside a blocking call, in a
// busy loop, deaf to SIGTERM. Real processes, started as spawnRanks() does; CI runs this file with both transports.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertEnded, type FaultJob, startFaultJob } from '../support/fault-job.ts';

const ranks = [0, 1, 2];
/** Promised are 2 s; a machine under load may be late with everything. */
const promisedMs = 5 * 2000;

const mortal = { HVD_TEST_MORTAL: '1' };

describe('no rank survives a launcher killed by SIGKILL', () => {
  for (const [where, env] of [
    ['in a blocking call', mortal],
    ['in a blocking call, with a handler for SIGTERM', {}],
  ] as const) {
    test(where, async (t) => {
      const job = startFaultJob(t, 3, 'inside.ts', { args: ['sync', '2'], env });
      await allBlocked(job);
      await killLauncher(job);
    });
  }

  test('in the middle of moving 64 MiB', async (t) => {
    const job = startFaultJob(t, 3, 'inside.ts', { args: ['largeSync', '-'] });
    await job.allSaid(ranks, 'ready');
    await job.said(0, 'entered');
    await killLauncher(job);
  });

  test('in a busy loop, with a handler for SIGTERM', async (t) => {
    const job = startFaultJob(t, 3, 'busy.ts');
    await job.allSaid(ranks, 'ready');
    await killLauncher(job);
  });

  test('inside init()', async (t) => {
    const job = startFaultJob(t, 3, 'starting.ts', { args: ['2'] });
    await job.allSaid(ranks, 'ready');
    await job.allSaid([0, 1], 'entered');
    await killLauncher(job);
  });
});

for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const) {
  test(`${signal} to horovodrun while ranks block in Sync calls ends everything with code ${code}`, async (t) => {
    const job = startFaultJob(t, 3, 'inside.ts', { args: ['sync', '2'], env: mortal });
    await allBlocked(job);
    job.run.child.kill(signal);
    assert.equal((await job.ended()).exitCode, code);
    for (const rank of ranks) await assertEnded(job.pid(rank));
  });
}

test('SIGTERM to horovodrun: ranks whose handler cannot run, because they block, get SIGKILL after a while', async (t) => {
  const job = startFaultJob(t, 3, 'inside.ts', { args: ['sync', '2'] });
  await allBlocked(job);
  job.run.child.kill('SIGTERM');
  assert.equal((await job.ended()).exitCode, 143);
  for (const rank of ranks) await assertEnded(job.pid(rank));
});

async function allBlocked(job: FaultJob): Promise<void> {
  await job.allSaid(ranks, 'ready');
  await Promise.all([job.blocked(0), job.blocked(1)]);
}

async function killLauncher(job: FaultJob): Promise<void> {
  job.run.child.kill('SIGKILL');
  for (const rank of ranks) await assertEnded(job.pid(rank), promisedMs);
}
