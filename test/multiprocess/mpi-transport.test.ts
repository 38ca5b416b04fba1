// The mpi transport under mpirun of Open MPI and of MPICH, on this machine: all bytes go through MPI. Several hosts are in
// test/cluster.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { loadNative } from '../../src/transport/native/load.ts';
import { clusterFixture } from '../support/box-jobs.ts';
import { assertCasesPassed } from '../support/case-jobs.ts';
import { faultFixture, type Said } from '../support/fault-job.ts';
import { describeResult, runCommand, saidIn } from '../support/foreign-launchers.ts';
import { fixturePath, sourcePath } from '../support/repository.ts';

const everyDtype = fixturePath('mpirun/every-dtype.ts');
const env = {
  HOROVOD_TRANSPORT: 'mpi',
  // See docs/guide/mpi.md, "When something goes wrong".
  UCX_MEM_EVENTS: 'no',
  HOROVOD_TIMEOUT_SECONDS: '60',
  OMPI_ALLOW_RUN_AS_ROOT: '1',
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1',
};
const hasPrlimit = spawnSync('prlimit', ['--version']).status === 0;
const families = [
  {
    name: 'Open MPI',
    kind: 'open-mpi',
    compiler: 'mpicc.openmpi',
    argv: ['mpirun.openmpi', '--oversubscribe', '--bind-to', 'none', '-np'],
  },
  { name: 'MPICH', kind: 'pmi', compiler: 'mpicc.mpich', argv: ['mpirun.mpich', '-np'] },
];

for (const { name, kind, compiler, argv } of families) {
  const addon = loadNative({ transport: 'mpi', launcher: { kind } });
  describe(`the mpi transport on ${name}`, { skip: addon.built ? false : addon.reason }, () => {
    test('reduces every dtype with every operator, and a job can be left and joined again', async () => {
      const result = await runCommand([...argv, '2', process.execPath, everyDtype], env);
      assert.equal(result.exitCode, 0, describeResult(result));
      const lines = result.stdout.match(/\{"transport":"mpi","mpiBuilt":true,"mpiEnabled":true\}/g);
      assert.equal(lines?.length, 2, describeResult(result));
      assert.doesNotMatch(result.stderr, /finalize/i, describeResult(result));
    });

    test('passes the cases of jobs on several hosts', async () => {
      const script = clusterFixture('hosts-cases.ts');
      const result = await runCommand([...argv, '3', process.execPath, script], env);
      assert.equal(result.exitCode, 0, describeResult(result));
      assertCasesPassed(result.stdout, 3, 'cluster/hosts-cases');
    });

    for (const [calls, disable] of [
      ['any thread calls MPI', '0'],
      ['one thread at a time calls MPI', '1'],
    ] as const) {
      test(`a rank without a free descriptor is an error of addProcessSet() on all ranks, and the job goes on: ${calls}`, {
        skip: hasPrlimit ? false : 'prlimit is not installed',
      }, async () => {
        const script = [faultFixture('limits.ts'), 'descriptors'];
        const result = await runCommand([...argv, '3', process.execPath, ...script], {
          ...env,
          HOROVOD_MPI_THREADS_DISABLE: disable,
        });
        assert.equal(result.exitCode, 0, describeResult(result));
        const errors = saidIn<Said>([result], 'caught');
        for (const { code, rank, message } of errors) {
          assert.deepEqual({ code, rank }, { code: 'ERR_HVD_NATIVE', rank: 1 }, message);
          assert.match(message ?? '', /EMFILE/);
        }
        const sums = saidIn<Said>([result], 'sums').map(({ value }) => JSON.stringify(value));
        assert.deepEqual(
          [errors.length, sums.sort()],
          [3, ['[3,2]', '[3,2]', '[3]']],
          describeResult(result),
        );
      });
    }

    test('a call that never comes back from MPI keeps no other call waiting for longer than its time limit', {
      skip: spawnSync(compiler, ['--version']).status === 0 ? false : `${compiler} is not installed`,
    }, async (t) => {
      const folder = mkdtempSync(join(tmpdir(), 'hvd-held-mpi-'));
      t.after(() => rmSync(folder, { recursive: true }));
      const [library, held, meeting] = ['held.so', 'held', 'meeting'].map((each) => join(folder, each)) as [
        string,
        string,
        string,
      ];
      mkdirSync(meeting);
      const compiled = spawnSync(compiler, [
        '-shared',
        '-fPIC',
        '-o',
        library,
        sourcePath('mpirun/held-create.c'),
      ]);
      assert.equal(compiled.status, 0, String(compiled.stderr));
      const preloaded = ['env', `LD_PRELOAD=${library}`, process.execPath];
      const result = await runCommand(
        [...argv, '3', ...preloaded, fixturePath('mpirun/held-library.ts'), held, meeting],
        {
          ...env,
          HOROVOD_MPI_THREADS_DISABLE: '1',
          HOROVOD_TIMEOUT_SECONDS: '5',
          HVD_TEST_HELD_RANK: '1',
          HVD_TEST_HELD_FILE: held,
        },
      );
      for (const word of ['caught', 'not added']) {
        const codes = saidIn<Said>([result], word).map(({ code }) => code);
        assert.deepEqual(codes, new Array(3).fill('ERR_HVD_TIMEOUT'), describeResult(result));
      }
    });
  });
}
