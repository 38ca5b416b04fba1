// A memory file system that is full or too small: a clear error at init() on every rank, and never SIGBUS. Each job has
// a /dev/shm of its own in a mount namespace (unshare -m), which needs root or user namespaces.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { faultFixture, startFaultJob } from '../support/fault-job.ts';
import { repository } from '../support/repository.ts';

const unshare = findUnshare();
const skip = unshare === undefined ? 'mount namespaces are not permitted here' : false;
const launcher = join(repository, 'dist/launch/main.js');

for (const size of ['64k', '1m']) {
  test(`/dev/shm has ${size} altogether: ERR_HVD_SHARED_MEMORY on every rank`, { skip }, async (t) => {
    assertRejected(await runIn(t, `mount -t tmpfs -o size=${size} tmpfs /dev/shm`, 4));
  });
}

test('/dev/shm has no page left for the control block: the same', { skip }, async (t) => {
  const fill =
    'mount -t tmpfs -o size=1m tmpfs /dev/shm; head -c 2m /dev/zero > /dev/shm/full 2>/dev/null; true';
  assertRejected(await runIn(t, fill, 2));
});

test('/dev/shm is large enough for the control block and full before the segment: the same', {
  skip,
}, async (t) => {
  // A segment takes far more than the 60 KiB that are left.
  const fill = 'mount -t tmpfs -o size=1m tmpfs /dev/shm; head -c 964k /dev/zero > /dev/shm/full';
  assertRejected(await runIn(t, fill, 2));
});

test('HOROVOD_SHM_DIR names another memory file system, and the full /dev/shm does not matter', {
  skip,
}, async (t) => {
  const directory = temporaryDirectory(t);
  const mounts =
    `mount -t tmpfs -o size=64k tmpfs /dev/shm; mount -t tmpfs -o size=64m tmpfs ${directory}; ` +
    `export HOROVOD_SHM_DIR=${directory}`;
  const { code, stdout, stderr } = await runIn(t, mounts, 2);
  assert.equal(code, 0, stderr);
  for (const rank of [0, 1]) assert.match(stdout, new RegExp(`\\[${rank}\\]<stdout>:value \\{"value":3`));
});

test('HOROVOD_SHM_DIR that does not exist is an error that names it', async (t) => {
  const env = { HOROVOD_SHM_DIR: '/nowhere/at/all' };
  const job = startFaultJob(t, 2, 'memory.ts', { args: [temporaryDirectory(t)], env });
  for (const rank of [0, 1]) {
    const { code, message } = await job.said(rank, 'caught');
    assert.equal(code, 'ERR_HVD_SHARED_MEMORY', message);
    assert.match(message ?? '', /\/nowhere\/at\/all/);
  }
  assert.equal((await job.ended()).exitCode, 1);
});

function assertRejected({ code, stdout, stderr }: Ran): void {
  assert.equal(code, 1, stderr);
  const errors = [...stdout.matchAll(/<stdout>:caught (\{.*\})$/gm)].map(([, text]) =>
    JSON.parse(text as string),
  );
  const np = [...stdout.matchAll(/<stdout>:ready /g)].length;
  assert.equal(errors.length, np, stdout);
  for (const { code: errorCode, message } of errors) {
    assert.equal(errorCode, 'ERR_HVD_SHARED_MEMORY', message);
    assert.match(message, /shared memory in \/dev\/shm .*(KiB|MiB|bytes) are free there.*HOROVOD_SHM_DIR/);
  }
  assert.doesNotMatch(stdout + stderr, /SIGBUS/);
}

interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the memory fixture on `np` ranks in a mount namespace prepared by these shell commands. */
function runIn(t: TestContext, commands: string, np: number): Promise<Ran> {
  const script = `${commands}\nexec "$@"`;
  const [file, ...flags] = unshare as [string, ...string[]];
  const job = [
    process.execPath,
    launcher,
    '-np',
    String(np),
    '--',
    faultFixture('memory.ts'),
    temporaryDirectory(t),
  ];
  const child = spawn(file, [...flags, 'sh', '-c', script, 'sh', ...job], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 60_000,
    killSignal: 'SIGKILL',
  });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (piece) => {
    stdout += piece;
  });
  child.stderr.on('data', (piece) => {
    stderr += piece;
  });
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, stdout, stderr })));
}

function temporaryDirectory(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'hvd-fault-'));
  t.after(() => rmSync(directory, { recursive: true }));
  return directory;
}

function findUnshare(): readonly string[] | undefined {
  const ways = [
    ['unshare', '-m'],
    ['unshare', '-mr'],
  ];
  return ways.find(([file = '', ...flags]) => {
    const mount = 'mount -t tmpfs -o size=64k tmpfs /dev/shm';
    return spawnSync(file, [...flags, 'sh', '-c', mount]).status === 0;
  });
}
