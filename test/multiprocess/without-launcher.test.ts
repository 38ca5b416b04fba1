// Ranks of this machine that horovodrun has not started: mpirun of Open MPI and of MPICH, and the same command several
// times with HOROVOD_RENDEZVOUS. Several hosts are in src/cluster.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createServer } from 'node:net';
import { describe, test } from 'node:test';
import { clusterFixture } from '../support/box-jobs.ts';
import {
  describeResult,
  type ForeignResult,
  type Here,
  jobless,
  runCommand,
  saidIn,
} from '../support/foreign-launchers.ts';
import { repository, sourcePath } from '../support/repository.ts';

const node = process.execPath;
const who = clusterFixture('who.ts');
/** One rank ends while the others are in the middle of something. */
const mortal = clusterFixture('mortal-step.ts');
const limits = { HOROVOD_TIMEOUT_SECONDS: '60' };
const asRoot = { OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1' };

const launchers = [
  {
    name: 'Open MPI',
    argv: ['mpirun.openmpi', '--oversubscribe', '--bind-to', 'none', '-np'],
    version: /Open MPI|OpenRTE|PRRTE/,
  },
  { name: 'MPICH', argv: ['mpirun.mpich', '-np'], version: /HYDRA/ },
] as const;

for (const { name, argv, version } of launchers) {
  describe(`mpirun of ${name}`, { skip: absence(argv[0], version) }, () => {
    test('ranks find each other, leave the job, and come back', async () => {
      const result = await runCommand([...argv, '3', node, who, 'again'], { ...limits, ...asRoot });
      assert.equal(result.exitCode, 0, describeResult(result));
      assertOneHost([result], 3, 2);
    });

    test('TypeScript runs with the loader that the guide names', async () => {
      const loader = ['--import', 'horovod/typescript'];
      const command = ['env', '-C', repository, ...argv, '2', node, ...loader, sourcePath('cluster/who.ts')];
      const result = await runCommand(command, { ...limits, ...asRoot });
      assert.equal(result.exitCode, 0, describeResult(result));
      assertOneHost([result], 2);
    });

    test('one process is rank 0 of 1', async () => {
      const result = await runCommand([...argv, '1', node, who], { ...limits, ...asRoot });
      assert.equal(result.exitCode, 0, describeResult(result));
      assertOneHost([result], 1);
    });

    test('the end of a rank ends the others, and mpirun says so', async () => {
      const result = await runCommand([...argv, '3', node, mortal, '1'], { ...limits, ...asRoot });
      assert.notEqual(result.exitCode, 0, describeResult(result));
      // mpirun may be quicker in ending them than they are in saying what they have seen.
      for (const { code } of saidIn<{ code: string }>([result], 'caught'))
        assert.equal(code, 'ERR_HVD_PEER_LOST', describeResult(result));
    });
  });
}

// Two of them mostly wait for a deadline.
describe('the same command several times, and an address', { concurrency: 3 }, () => {
  test('ranks are given out by order of arrival', async () => {
    assertOneHost(await meetAt(await freePort(), 3), 3);
  });

  test('two jobs at the same address: one after the other', async () => {
    const port = await freePort();
    const jobs = await Promise.all([meetAt(port, 2), meetAt(port, 2)]);
    assertOneHost(jobs.flat(), 2, 2);
  });

  test('rank 0 may end right after init(): the others come to the end of theirs', async () => {
    const results = await meetAt(await freePort(), 3, ['leave']);
    const ranks = saidIn<Here>(results, 'here').map(({ rank }) => rank);
    assert.deepEqual(ranks.sort(), [0, 1, 2]);
  });

  test('the end of a rank ends the others, with an error that names it', async () => {
    const port = await freePort();
    const results = await Promise.all(
      [0, 1, 2].map((rank) => runCommand([node, mortal, '1'], addressOf(port, 3, rank))),
    );
    const texts = results.map(describeResult).join('\n');
    const codes = results.map(({ exitCode }) => exitCode);
    assert.deepEqual(codes, [1, 3, 1], texts);
    const caught = saidIn<{ code: string; rank: number }>(results, 'caught');
    const lost = ['ERR_HVD_PEER_LOST', 1];
    assert.deepEqual(
      caught.map(({ code, rank }) => [code, rank]),
      [lost, lost],
      texts,
    );
  });

  test('a process that never comes is missed by name', async () => {
    const port = await freePort();
    const results = await Promise.all(
      [0, 2].map((rank) =>
        runCommand([node, who], { ...addressOf(port, 3, rank), HOROVOD_START_TIMEOUT: '2' }),
      ),
    );
    const caught = saidIn<{ code: string; message: string }>(results, 'caught');
    assert.equal(caught.length, 2, results.map(describeResult).join('\n'));
    for (const { code, message } of caught) {
      assert.equal(code, 'ERR_HVD_TIMEOUT');
      assert.match(message, /2 of 3 have come .* missing: rank 1/);
    }
  });

  test('HOROVOD_SECRET_KEY keeps out processes that do not have it', async () => {
    const port = await freePort();
    const key = (digit: string) => ({ HOROVOD_SECRET_KEY: digit.repeat(64), HOROVOD_START_TIMEOUT: '2' });
    const results = await Promise.all([
      runCommand([node, who], { ...addressOf(port, 2, 0), ...key('a') }),
      runCommand([node, who], { ...addressOf(port, 2, 1), ...key('b') }),
    ]);
    const caught = saidIn<{ message: string }>(results, 'caught').map(({ message }) => message);
    assert.equal(caught.length, 2, results.map(describeResult).join('\n'));
    assert.match(caught[0] as string, /missing: rank 1/);
    assert.match(caught[1] as string, /rejected: another job, or a different secret/);
    assert.doesNotMatch(JSON.stringify(results), /a{64}|b{64}/);
  });
});

function addressOf(port: number, size: number, rank?: number): NodeJS.ProcessEnv {
  return {
    ...limits,
    HOROVOD_RENDEZVOUS: `127.0.0.1:${port}`,
    HOROVOD_SIZE: String(size),
    ...(rank === undefined ? {} : { HOROVOD_RANK: String(rank) }),
  };
}

async function meetAt(port: number, size: number, args: readonly string[] = []): Promise<ForeignResult[]> {
  const results = await Promise.all(
    Array.from({ length: size }, () => runCommand([node, who, ...args], addressOf(port, size))),
  );
  for (const result of results) assert.equal(result.exitCode, 0, describeResult(result));
  return results;
}

/** Each rank has been there `times` times. */
function assertOneHost(results: readonly ForeignResult[], size: number, times = 1): void {
  const all = saidIn<Here>(results, 'here').sort((a, b) => a.rank - b.rank);
  const sum = (size * (size + 1)) / 2;
  assert.deepEqual(
    all.map((here) => [here.rank, here.size, here.local, here.cross, here.sum]),
    Array.from({ length: size }, (_, rank) =>
      Array.from({ length: times }, () => [rank, size, [rank, size], [0, 1], sum]),
    ).flat(),
    results.map(describeResult).join('\n'),
  );
}

/** Why there is no such mpirun; false if there is. */
function absence(command: string, version: RegExp): string | false {
  const options = { encoding: 'utf8', env: { ...jobless(), ...asRoot } } as const;
  const { error, stdout } = spawnSync(command, ['--version'], options);
  if (error !== undefined) return `${command} is not installed`;
  return version.test(stdout) ? false : `${command} is not what its name says`;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return port;
}
