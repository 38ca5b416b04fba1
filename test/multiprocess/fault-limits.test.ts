// Limits of the system on one rank or all: descriptors, address space, threads. Never a hang and never a crash: an error on
// all ranks, or another way.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { loadNative } from '../../src/transport/native/load.ts';
import { faultFixture, startFaultJob } from '../support/fault-job.ts';
import { describeResult, runCommand } from '../support/foreign-launchers.ts';
import { repository } from '../support/repository.ts';

const hasPrlimit = spawnSync('prlimit', ['--version']).status === 0;
const native = loadNative();

/** Why a test with this transport cannot run here. */
function skipFor(transport: string): string | false {
  if (!hasPrlimit) return 'prlimit is not installed';
  return transport === 'portable' || native.built ? false : native.reason;
}

const ranks = [0, 1, 2];

for (const transport of ['shm', 'tcp', 'portable']) {
  test(`${transport}: a rank without a free descriptor is an error of addProcessSet() on all ranks, and the job goes on`, {
    skip: skipFor(transport),
  }, async (t) => {
    const env = { HOROVOD_TRANSPORT: transport, HOROVOD_TIMEOUT_SECONDS: '600' };
    const job = startFaultJob(t, 3, 'limits.ts', { args: ['descriptors'], env });
    for (const { code, message, rank } of await job.allSaid(ranks, 'caught')) {
      assert.match(String(code), /ERR_HVD_(NATIVE|SHARED_MEMORY)/, message);
      assert.match(message ?? '', /EMFILE/);
      if (rank !== undefined) assert.equal(rank, 1, message);
    }
    for (const [rank, { value }] of (await job.allSaid(ranks, 'sums')).entries()) {
      assert.deepEqual(value, rank < 2 ? [3, 2] : [3]);
    }
    assert.equal((await job.ended()).exitCode, 0);
  });
}

test('64 process sets in turn need no more address space than one, and a gigabyte is enough', {
  skip: skipFor('shm'),
}, async (t) => {
  const job = startFaultJob(t, 3, 'limits.ts', {
    args: ['address space'],
    env: { HOROVOD_TRANSPORT: 'shm' },
  });
  for (const { value } of await job.allSaid([0, 1], 'sums')) assert.deepEqual(value, [3, 2]);
  for (const { value } of await job.allSaid(ranks, 'grown')) {
    assert.ok(Number(value) < 512 << 20, `${value} bytes`);
  }
  assert.equal((await job.ended()).exitCode, 0);
});

// The limit does not apply to root, so root runs the job as nobody.
const asNobody =
  process.getuid?.() === 0 ? ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] : [];
const fixture = faultFixture('limits.ts');

function threadSkip(): string | false {
  const reason = skipFor('shm');
  if (reason !== false) return reason;
  const [command = 'test', ...args] = [...asNobody, 'test', '-r', fixture];
  return spawnSync(command, args).status === 0
    ? false
    : 'nobody may not read this checkout, or there is no setpriv';
}

test('a rank that can start no thread is an error on all ranks', { skip: threadSkip() }, async () => {
  const launcher = join(repository, 'dist/launch/main.js');
  const argv = [...asNobody, process.execPath, launcher, '-np', '3', '--', fixture, 'threads'];
  const result = await runCommand(argv, { HOROVOD_TRANSPORT: 'shm', HOROVOD_FLIGHT_DIR: 'none' });
  const errors = [...result.stdout.matchAll(/<stdout>:caught (\{.*\})$/gm)].map(([, text]) =>
    JSON.parse(text as string),
  );
  assert.equal(errors.length, 3, describeResult(result));
  for (const { code, message } of errors) {
    assert.equal(code, 'ERR_HVD_NATIVE', message);
    assert.match(message, /thread .*could not be started.*ulimit -u/);
  }
  assert.equal(result.exitCode, 0, describeResult(result));
});
