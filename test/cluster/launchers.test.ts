// Jobs that horovodrun has not started: Open MPI, MPICH, Slurm, and the same command on every host with
// HOROVOD_RENDEZVOUS. init() finds rank, size, local and cross ranks, however ranks are spread over hosts; the cases check
// that, and that all ranks reach each other (test/fixtures/cluster/hosts-cases.ts).

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Box, type BoxResult, canUseBox, startBox } from '../support/box.ts';
import { clusterFixture, transportVariants } from '../support/box-jobs.ts';
import { assertCasesPassed, linesOf } from '../support/case-jobs.ts';
import { fixturePath, repository } from '../support/repository.ts';

const skip = canUseBox() ?? false;
const script = [clusterFixture('hosts-cases.ts'), 'brief'];
const node = process.execPath;
const limits = { HOROVOD_TIMEOUT_SECONDS: '60' };
const openMpi = [
  ...['mpirun.openmpi', '--allow-run-as-root', '--bind-to', 'none', '--oversubscribe'],
  // Its own traffic needs to be told; ours must find the way by itself.
  ...['--mca', 'oob_tcp_if_include', 'eth0', '--mca', 'btl_tcp_if_include', 'eth0'],
];

describe('mpirun, and no launcher at all', { skip }, () => {
  let box: Box;
  before(async () => {
    box = await startBox({ hosts: 3, decoy: true });
  });
  after(() => box.close());

  for (const { transport, env, skip: why } of transportVariants().filter((each) =>
    /tcp|mpi/.test(each.transport),
  )) {
    test(`Open MPI, ranks in turn over the hosts (${transport})`, {
      skip: why || needs('mpirun.openmpi'),
    }, async () => {
      const argv = [
        ...openMpi,
        ...passOn(env),
        '-np',
        '5',
        '-H',
        'host1:2,host2:2,host3:1',
        '--map-by',
        'node',
        node,
        ...script,
      ];
      const result = await box.exec('host1', argv, { env: { ...limits, ...env } });
      assertAllPassed(result, 5, transport);
      await box.assertNothingLeft();
    });
  }

  test('MPICH', { skip: needs('mpirun.mpich') }, async () => {
    const argv = [
      'mpirun.mpich',
      '-launcher',
      'ssh',
      '-hosts',
      'host1,host2',
      '-ppn',
      '2',
      '-n',
      '4',
      node,
      ...script,
    ];
    assertAllPassed(await box.exec('host1', argv, { env: limits }), 4);
    await box.assertNothingLeft();
  });

  test('the same command on every host, ranks in turn over the hosts', async () => {
    const placement = ['host1', 'host2', 'host3', 'host1', 'host2'];
    const results = await Promise.all(
      placement.map((host, rank) =>
        box.exec(host, [node, ...script], {
          env: {
            ...limits,
            HOROVOD_RENDEZVOUS: 'host1:29500',
            HOROVOD_SECRET_KEY: 'ab'.repeat(32),
            HOROVOD_RANK: String(rank),
            HOROVOD_SIZE: String(placement.length),
          },
        }),
      ),
    );
    for (const result of results) assertAllPassed(result, 1);
    await box.assertNothingLeft();
  });
});

describe('Slurm', { skip: canUseBox({ slurm: true }) ?? false }, () => {
  let box: Box;
  before(async () => {
    box = await startBox({ hosts: 2, slurm: true, decoy: true });
  });
  after(() => box.close());

  for (const [title, flags] of [
    ['srun', []],
    ['srun, ranks in turn over the hosts', ['-m', 'cyclic']],
    ['srun with PMI-2', ['--mpi=pmi2']],
  ] as const) {
    test(title, async () => {
      const argv = ['srun', '-N', '2', '-n', '4', ...flags, node, ...script];
      assertAllPassed(await box.exec('host1', argv, { env: limits }), 4);
      await box.assertNothingLeft();
    });
  }

  test('a plain sbatch script is a job of one, although Slurm speaks of four tasks', async () => {
    const batch = join(box.shared, 'batch.sh');
    const output = join(box.shared, 'batch.out');
    writeFileSync(batch, `#!/bin/bash\nexec ${node} ${script.join(' ')}\n`, { mode: 0o755 });
    const argv = ['sbatch', '--wait', '-N', '2', '-n', '4', '-o', output, batch];
    const { exitCode, stderr } = await box.exec('host1', argv, { env: limits });
    assert.equal(exitCode, 0, stderr);
    const { stdout } = await box.exec('host1', ['cat', output]);
    assertAllPassed({ exitCode, stdout, stderr }, 1, 'memory');
    await box.assertNothingLeft();
  });

  test('horovodrun inside an allocation takes the nodes as its hosts, also for an elastic job', async () => {
    const horovodrun = ['salloc', '-N', '2', '-n', '4', node, join(repository, 'dist/launch/main.js')];
    const plain = [...horovodrun, '-np', '4', '--', clusterFixture('who.ts')];
    const { stdout: said } = await box.exec('host1', plain, { env: limits });
    assert.match(said, /^\[3\]<stdout>:here .*"host":"host2"/m);
    const enough = join(box.shared, 'enough');
    writeFileSync(enough, '');
    const argv = [...horovodrun, '-np', '4', '--min-np', '2', '--', fixturePath('faults/elastic.ts'), enough];
    const { exitCode, stdout, stderr } = await box.exec('host1', argv, { env: limits });
    assert.equal(exitCode, 0, stderr);
    assert.match(stdout, /"generation":1,"worker":3,"rank":3,"size":4,.*"transport":"tcp"/);
    await box.assertNothingLeft();
  });

  test('mpirun inside an allocation', { skip: needs('mpirun.openmpi') }, async () => {
    const argv = ['salloc', '-N', '2', '-n', '4', ...openMpi, '-np', '4', node, ...script];
    assertAllPassed(await box.exec('host1', argv, { env: limits }), 4);
    await box.assertNothingLeft();
  });
});

/** Remote ranks get the variables that mpirun gets by name. */
function passOn(env: NodeJS.ProcessEnv): string[] {
  return Object.keys({ ...limits, ...env }).flatMap((name) => ['-x', name]);
}

function needs(command: string): string | false {
  return canUseBox({ commands: [command] }) ?? false;
}

/** Every rank said which transport it uses and passed all its cases. Launchers of others put no ranks before lines. */
function assertAllPassed(result: BoxResult, ranks: number, transport?: string): void {
  const text = `${result.stdout}\n${result.stderr}`;
  assert.equal(result.exitCode, 0, text);
  assertCasesPassed(result.stdout, ranks, 'cluster/hosts-cases-brief');
  const transports = linesOf(result.stdout).flatMap(({ transport }) => transport ?? []);
  assert.equal(transports.length, ranks, text);
  if (transport !== undefined) assert.deepEqual(new Set(transports), new Set([transport]));
}
