// run() and `horovodrun --mpi` over hosts in a box, which have a docker0 of the same address each.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { describeNative } from '../../src/transport/native/describe-native.ts';
import { type Box, canUseBox, startBox } from '../support/box.ts';
import { runOnBox, startOnBox } from '../support/box-jobs.ts';
import { fixturePath, sourcePath } from '../support/repository.ts';

const skip = canUseBox() ?? false;
const path = (name: string) => fixturePath(`${name}`);
const report = path('mpirun/report.ts');

describe('run() and mpirun over hosts', { skip }, () => {
  let box: Box;
  before(async () => {
    box = await startBox({ hosts: 2, decoy: true });
  });
  after(() => box.close());

  test('run() calls a function on every host, and a remote error keeps its stack', async () => {
    const argv = [process.execPath, path('run/over-hosts.ts'), 'host1:2,host2:2'];
    const { exitCode, stdout, stderr } = await box.exec('host1', argv);
    assert.equal(exitCode, 0, stderr);
    const { results, failure } = JSON.parse(stdout) as {
      results: unknown;
      failure: { code: string; rank: number; cause: string; stack: string };
    };
    assert.deepEqual(
      results,
      ['host1', 'host1', 'host2', 'host2'].map((host, rank) => ({ host, rank, sent: 200_000 })),
    );
    const { stack, ...rest } = failure;
    assert.deepEqual(rest, { code: 'ERR_HVD_RUN', rank: 3, cause: 'RangeError' });
    assert.match(stack, /RangeError: far away\n\s+at failing/);
    await box.assertNothingLeft();
  });

  test('launch() runs a notebook on every host, and an error of another host names its cell', async () => {
    const script = path('run/notebook-over-hosts.ts');
    const argv = [process.execPath, script, sourcePath('run/program.ipynb'), 'host1:1,host2:2'];
    const { exitCode, stdout, stderr } = await box.exec('host1', argv);
    assert.equal(exitCode, 0, stderr);
    const { size, logs, failure } = JSON.parse(stdout) as {
      size: number;
      logs: string;
      failure: { rank: number; text: string };
    };
    assert.equal(size, 3);
    const lines = ['host1', 'host2', 'host2'].map(
      (host, rank) => `[${rank}]<stdout>:3 ranks, here on ${host}`,
    );
    assert.deepEqual(logs.trimEnd().split('\n').sort(), lines);
    assert.equal(failure.rank, 2);
    assert.match(
      failure.text,
      /rank 2 failed in program\.ipynb, cell 3, line 2: RangeError: far away\n\n.*\n> 2 \| if \(hvd\.rank/s,
    );
    await box.assertNothingLeft();
  });

  test('a host that mpirun cannot reach is an error of one line', {
    skip: canUseBox({ commands: ['mpirun'] }) ?? false,
  }, async () => {
    const job = await runOnBox(box, report, { hosts: 'host1:1,host2:1,host9:1', flags: ['--mpi'] });
    assert.equal(job.exitCode, 1);
    assert.match(job.stderr, /host9 \(name\): ssh says/);
    assert.doesNotMatch(job.stderr, /ORTE|host2 \(/);
  });

  for (const [program, kind] of [
    ['mpirun.openmpi', 'open-mpi'],
    ['mpirun.mpich', 'pmi'],
  ] as const) {
    const why = canUseBox({ commands: [program] }) ?? false;
    const env = { HOROVOD_MPIRUN: program };

    const addon = describeNative({ transport: 'mpi', launcher: { kind } });
    const noEngine = addon.built ? false : (addon.reason ?? 'no mpi transport');
    test(`${program}: uneven hosts, another port of ssh, bytes moved by MPI`, {
      skip: why || noEngine,
    }, async () => {
      await box.exec('host2', ['/usr/sbin/sshd', '-p', '2222']);
      const job = await runOnBox(box, path('cluster/who.ts'), {
        hosts: 'host1:2,host2:1',
        flags: ['--mpi', '--ssh-port', '2222'],
        env,
      });
      assert.equal(job.exitCode, 0, job.stderr);
      const said = job.ranks.map(({ stdout }) => JSON.parse(stdout.replace(/^here /, '')) as object);
      const common = { size: 3, sum: 6, transport: 'mpi' };
      assert.deepEqual(said, [
        { ...common, rank: 0, local: [0, 2], cross: [0, 2], host: 'host1' },
        { ...common, rank: 1, local: [1, 2], cross: [0, 1], host: 'host1' },
        { ...common, rank: 2, local: [0, 1], cross: [1, 2], host: 'host2' },
      ]);
    });

    test(`${program}: run() gives ranks of other hosts no address that means their own host`, {
      skip: why || noEngine,
    }, async () => {
      const argv = [process.execPath, path('run/with-mpirun.ts'), 'host1:1,host2:1'];
      const { exitCode, stdout, stderr } = await box.exec('host1', argv, { env });
      assert.equal(exitCode, 0, stderr);
      const found = JSON.parse(stdout) as { host: string; addresses: string }[];
      assert.deepEqual(
        found.map(({ host }) => host),
        ['host1', 'host2'],
      );
      for (const { addresses } of found) {
        assert.match(addresses, /^10\.77\.0\.1:\d+/);
        assert.doesNotMatch(addresses, /127\.|localhost|::1/);
      }
      await box.assertNothingLeft();
    });

    test(`${program}: the ranks of all hosts die with horovodrun`, { skip: why }, async () => {
      const job = startOnBox(box, report, {
        hosts: 'host1:1,host2:1',
        flags: ['--mpi'],
        args: ['wait', box.shared],
        env,
      });
      await job.waitForOutput(/waiting[\s\S]*waiting/);
      const shown = ['host1', 'host2'].flatMap((host) => box.processesOn(host));
      assert.ok(shown.some(({ command }) => command.includes('report.js')));
      for (const { command } of shown) assert.doesNotMatch(command, /[0-9a-f]{64}/);
      job.kill('SIGKILL');
      await job.ended;
      await box.assertNothingLeft(5000);
    });
  }
});
