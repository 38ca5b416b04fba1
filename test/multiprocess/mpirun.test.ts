// `horovodrun --mpi` on this host, with each MPI there is.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { spawnRanks, startHorovodrun } from '../../src/testing/spawn-ranks.ts';
import { describeNative } from '../../src/transport/native/describe-native.ts';
import { fixturePath } from '../support/repository.ts';

const fixture = (name: string) => fixturePath(`${name}`);
const script = fixture('mpirun/report.ts');
const who = fixture('cluster/who.ts');
const deadline = { timeout: 60_000 };

function temporaryDirectory(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'hvd-mpirun-'));
  t.after(() => rmSync(directory, { recursive: true }));
  return directory;
}

for (const [family, program, kind] of [
  ['Open MPI', 'mpirun.openmpi', 'open-mpi'],
  ['MPICH', 'mpirun.mpich', 'pmi'],
] as const) {
  const isMissing = spawnSync(program, ['--version']).status !== 0;
  const skip = isMissing && `${program} is not installed`;
  describe(`${family}:`, { skip }, () => {
    test('ranks get their settings, arguments and a secret; output looks as always', deadline, async (t) => {
      const directory = temporaryDirectory(t);
      const logs = join(directory, 'logs');
      const job = await spawnRanks(3, script, {
        args: ['report', 'two words', '"'],
        flags: [
          ...['--mpi', '-H', 'localhost:3', '--cycle-time-ms', '2', '--output-filename', logs],
          ...['--env-deny', 'HVD_TEST_D*', '--verbose'],
        ],
        env: {
          HOROVOD_MPIRUN: program,
          HVD_TEST_DENIED: 'x',
          HVD_TEST_TOKEN: 'not-to-be-shown',
          // Of another job.
          HOROVOD_RANK: '5',
          HOROVOD_SIZE: '6',
          TMPDIR: directory,
        },
      });
      assert.equal(job.exitCode, 0, job.stderr);
      for (const [rank, output] of job.ranks.entries()) {
        assert.equal(output.stdout.trim(), `rank ${rank} of 3: mpi 2 no rank denied secret of 64`);
        assert.equal(output.stderr.trim(), 'arguments ["two words","\\""]');
        const file = readFileSync(join(logs, `rank.${rank}`, 'stdout'), 'utf8');
        assert.ok(file.startsWith(`[${rank}]<stdout>:rank ${rank} of 3`));
      }
      assert.match(job.stderr, /HVD_TEST_TOKEN/);
      assert.doesNotMatch(job.stderr, /not-to-be-shown|[0-9a-f]{64}/);
    });

    const addon = describeNative({ transport: 'mpi', launcher: { kind } });
    test('MPI moves the bytes', { ...deadline, skip: !addon.built && addon.reason }, async (t) => {
      const job = await spawnRanks(3, who, {
        flags: ['--mpi'],
        env: { HOROVOD_MPIRUN: program, TMPDIR: temporaryDirectory(t) },
      });
      assert.equal(job.exitCode, 0, job.stderr);
      for (const [rank, { stdout }] of job.ranks.entries()) {
        const { sum, transport, ...rest } = JSON.parse(stdout.replace(/^here /, '')) as Record<
          string,
          unknown
        >;
        assert.deepEqual([rest['rank'], rest['size'], sum, transport], [rank, 3, 6, 'mpi']);
      }
    });

    test('elastic.run() trains once with all ranks', deadline, async (t) => {
      const directory = temporaryDirectory(t);
      const enough = join(directory, 'enough');
      writeFileSync(enough, '');
      const job = await spawnRanks(2, fixture('faults/elastic.ts'), {
        args: [enough],
        flags: ['--mpi'],
        env: { HOROVOD_MPIRUN: program, TMPDIR: directory },
      });
      assert.equal(job.exitCode, 0, job.stderr);
      for (const [rank, { stdout }] of job.ranks.entries())
        assert.match(
          stdout,
          new RegExp(`^generation \\{"generation":0,.*"rank":${rank},"size":2,.*\\}$`, 'm'),
        );
    });

    test('the exit code is that of the rank that failed', deadline, async (t) => {
      const job = await spawnRanks(2, script, {
        args: ['exit', '1', '5'],
        flags: ['--mpi'],
        env: { HOROVOD_MPIRUN: program, TMPDIR: temporaryDirectory(t) },
      });
      assert.equal(job.exitCode, 5, job.stderr);
      assert.match(job.stderr, /horovodrun: mpirun failed with exit code 5/);
    });

    for (const [signal, exitCode] of [
      ['SIGTERM', 143],
      ['SIGKILL', null],
    ] as const) {
      test(`${signal} of horovodrun ends every rank`, deadline, async (t) => {
        const directory = temporaryDirectory(t);
        const run = startHorovodrun(['-np', '2', '--mpi', '--', script, 'wait', directory], {
          env: { HOROVOD_MPIRUN: program, TMPDIR: directory },
        });
        const pids = await Promise.all([0, 1].map((rank) => pidIn(join(directory, String(rank)))));
        run.child.kill(signal);
        const end = await run.ended;
        assert.equal(end.exitCode, exitCode, run.stderr);
        await Promise.all(pids.map(hasEnded));
      });
    }
  });
}

test('a missing mpirun is an error of one line', deadline, async () => {
  const job = await spawnRanks(1, script, { flags: ['--mpi'], env: { HOROVOD_MPIRUN: 'no-such-mpirun' } });
  assert.equal(job.exitCode, 2);
  assert.match(job.stderr, /cannot start the job with mpirun: no-such-mpirun was not found on the PATH/);
});

/** The tests' own deadline ends the waiting. */
async function pidIn(file: string): Promise<number> {
  for (;;) {
    try {
      const pid = Number(/^(\d+)\n/.exec(readFileSync(file, 'utf8'))?.[1]);
      if (pid > 0) return pid;
    } catch {
      // Not there yet.
    }
    await new Promise((done) => setTimeout(done, 20));
  }
}

async function hasEnded(pid: number): Promise<void> {
  for (;;) {
    try {
      // A zombie has ended; whether somebody reaps it is not ours to see to.
      if (/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))) return;
    } catch {
      return;
    }
    await new Promise((done) => setTimeout(done, 20));
  }
}
