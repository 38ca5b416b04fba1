// Faults in jobs that nobody watches over: no launcher, or one that lets the other ranks go on (srun). The ranks find out by
// themselves, say who was lost, and nothing is left on any host. That such jobs work at all is in launchers.test.ts.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { type Box, type BoxProcess, canUseBox, startBox } from '../support/box.ts';
import { clusterFixture } from '../support/box-jobs.ts';
import { describeResult, type ForeignResult, type Here, saidIn } from '../support/foreign-launchers.ts';
import { fixturePath } from '../support/repository.ts';

const node = process.execPath;
const who = clusterFixture('who.ts');
const steps = clusterFixture('steps.ts');
const limits = { HOROVOD_TIMEOUT_SECONDS: '60' };
/** For hosts that meet at an address; what mpirun and srun start needs none. */
const key = { HOROVOD_SECRET_KEY: 'ab'.repeat(32) };
/** Promised are 2 s after an end that is seen (EOF) and 10 s of silence; the rest is for a machine with more to do. */
const boundMs = { seen: 2_000 + 6_000, silent: 10_000 + 8_000 };

interface Caught {
  readonly code: string;
  readonly message: string;
  readonly rank?: number;
}

describe('the same command on every host', { skip: canUseBox() ?? false, concurrency: 3 }, () => {
  test('processes without ranks meet at an IPv6 address and are numbered host by host', async () => {
    await using box = await startBox({ hosts: 3, decoy: true, ipv6: 'only' });
    const hosts = ['host3', 'host1', 'host2', 'host3', 'host2'];
    const env = { ...limits, ...key, HOROVOD_RENDEZVOUS: '[fd77::2]:7000', HOROVOD_SIZE: '5' };
    const results = await Promise.all(hosts.map((host) => box.exec(host, [node, who], { env })));
    const all = saidIn<Here>(results, 'here').sort((a, b) => a.rank - b.rank);
    assert.deepEqual(
      all.map(({ host, local, cross, sum }) => [host, local, cross, sum]),
      [
        // Who serves the store is first: it is on the host of the address.
        ['host2', [0, 2], [0, 3], 15],
        ['host2', [1, 2], [0, 2], 15],
        ['host1', [0, 1], [1, 3], 15],
        ['host3', [0, 2], [2, 3], 15],
        ['host3', [1, 2], [1, 2], 15],
      ],
      results.map(describeResult).join('\n'),
    );
    await box.assertNothingLeft();
  });

  test('a rank is killed: the others, numbered by Kubernetes, end by themselves and name it', async () => {
    await using box = await startBox({ hosts: 3, decoy: true });
    const ranks = await startIndexed(box, ['host1', 'host2', 'host3', 'host2']);
    const killedAt = performance.now();
    ranks[3]?.kill('SIGKILL');
    const results = await endsOf(ranks.slice(0, 3), boundMs.seen);
    assertBound(killedAt, boundMs.seen);
    for (const { code, rank, message } of caughtBy(results, 3))
      assert.deepEqual([code, rank], ['ERR_HVD_PEER_LOST', 3], message);
    await box.assertNothingLeft();
  });

  test('the host of rank 0, which had served the store, crashes: the others end by themselves and name it', async () => {
    await using box = await startBox({ hosts: 3 });
    const ranks = await startIndexed(box, ['host1', 'host2', 'host3']);
    const crashedAt = performance.now();
    await box.crash('host1');
    const results = await endsOf(ranks.slice(1), boundMs.silent);
    assertBound(crashedAt, boundMs.silent);
    for (const { code, message } of caughtBy(results, 2)) {
      assert.equal(code, 'ERR_HVD_PEER_LOST', message);
      assert.match(message, /host1/);
    }
    await box.assertNothingLeft();
  });

  test('rank 0 is killed while it waits for the last one: the others learn it at once', async () => {
    await using box = await startBox({ hosts: 2 });
    const ranks = startEach(box, ['host1', 'host2'], 3);
    await ranks[0]?.waitForOutput(/rank 1 \(host2, pid \d+\) has come: 2 of 3/, 'stderr');
    ranks[0]?.kill('SIGKILL');
    const results = await endsOf(ranks.slice(1), boundMs.seen);
    for (const { code, rank, message } of caughtBy(results, 1))
      assert.deepEqual([code, rank], ['ERR_HVD_PEER_LOST', 0], message);
    await box.assertNothingLeft();
  });
});

const mpirun = 'mpirun.openmpi';
describe('Open MPI', { skip: canUseBox({ commands: [mpirun] }) ?? false }, () => {
  test('a rankfile puts rank 0 on another host than mpirun, whose ranks know of no other host', async () => {
    await using box = await startBox({ hosts: 3, decoy: true });
    const hosts = ['host2', 'host1', 'host3', 'host1'];
    const rankfile = join(box.shared, 'rankfile');
    const used = new Map<string, number>();
    const lines = hosts.map((host, rank) => {
      const slot = used.get(host) ?? 0;
      used.set(host, slot + 1);
      return `rank ${rank}=${host} slot=${slot}\n`;
    });
    writeFileSync(rankfile, lines.join(''));
    const network = ['--mca', 'oob_tcp_if_include', 'eth0'];
    const where = ['-np', '4', '-H', 'host1:2,host2:1,host3:1', '--rankfile', rankfile];
    const argv = [mpirun, '--allow-run-as-root', ...network, ...where, node, who];
    const result = await box.exec('host1', argv, { env: limits });
    const all = saidIn<Here>([result], 'here').sort((a, b) => a.rank - b.rank);
    assert.deepEqual(
      all.map(({ host, sum }) => [host, sum]),
      hosts.map((host) => [host, 10]),
      describeResult(result),
    );
    await box.assertNothingLeft();
  });
});

describe('Slurm', { skip: canUseBox({ slurm: true }) ?? false }, () => {
  test('srun that does not end the other tasks: they end by themselves', async () => {
    await using box = await startBox({ hosts: 2, slurm: true });
    const argv = [
      'srun',
      '--kill-on-bad-exit=0',
      '-N',
      '2',
      '-n',
      '4',
      '-m',
      'cyclic',
      node,
      steps,
      'endless',
    ];
    const job = box.start('host1', argv, { env: limits });
    await job.waitForOutput(/(first[\s\S]*){4}/);
    const [victim] = box
      .processesOn('host2')
      .filter(({ command }) => /^\S*node .*steps\.(js|ts)/.test(command));
    assert.ok(victim !== undefined, 'no rank on host2');
    const killedAt = performance.now();
    process.kill(victim.pid, 'SIGKILL');
    const result = await job.endedWithin(boundMs.seen + 20_000);
    assertBound(killedAt, boundMs.seen);
    assert.notEqual(result.exitCode, 0, describeResult(result));
    for (const { code, message } of caughtBy([result], 3)) assert.equal(code, 'ERR_HVD_PEER_LOST', message);
    await box.assertNothingLeft();
  });

  test('srun that does not end the other tasks: an elastic job goes on with them', async () => {
    await using box = await startBox({ hosts: 2, slurm: true });
    const enough = join(box.shared, 'enough');
    const flags = ['--no-kill', '--kill-on-bad-exit=0', '-N', '2', '-n', '4'];
    const argv = ['srun', ...flags, node, fixturePath('faults/elastic.ts'), enough];
    const job = box.start('host1', argv, { env: { ...limits, HOROVOD_ELASTIC_MIN_NP: '2' } });
    await job.waitForOutput(/("generation":1,[\s\S]*){4}/);
    const [victim] = box
      .processesOn('host2')
      .filter(({ command }) => /^\S*node .*elastic\.(js|ts)/.test(command));
    assert.ok(victim !== undefined, 'no rank on host2');
    process.kill(victim.pid, 'SIGKILL');
    await job.waitForOutput(/rank [23] on host2 has ended: .*; 3 ranks continue/, 'stderr');
    writeFileSync(enough, '');
    const { stdout, stderr } = await job.endedWithin(boundMs.silent + 60_000);
    assert.equal(stdout.match(/finished \{.*"size":3\}/g)?.length, 3, `${stdout}\n${stderr}`);
    await box.assertNothingLeft();
  });
});

/** Ranks numbered as an Indexed Job of Kubernetes numbers its pods; all have taken their first step. */
async function startIndexed(box: Box, hosts: readonly string[]): Promise<BoxProcess[]> {
  const ranks = startEach(box, hosts, hosts.length);
  await Promise.all(ranks.map((rank) => rank.waitForOutput(/^first/m)));
  return ranks;
}

function startEach(box: Box, hosts: readonly string[], size: number): BoxProcess[] {
  return hosts.map((host, index) =>
    box.start(host, [node, steps, 'endless'], {
      env: {
        ...limits,
        ...key,
        HOROVOD_LOG_LEVEL: 'debug',
        HOROVOD_RENDEZVOUS: 'host1:7000',
        HOROVOD_SIZE: String(size),
        JOB_COMPLETION_INDEX: String(index),
      },
    }),
  );
}

function endsOf(ranks: readonly BoxProcess[], bound: number): Promise<ForeignResult[]> {
  return Promise.all(ranks.map((rank) => rank.endedWithin(bound + 20_000)));
}

function caughtBy(results: readonly ForeignResult[], count: number): Caught[] {
  const caught = saidIn<Caught>(results, 'caught');
  assert.equal(caught.length, count, results.map(describeResult).join('\n'));
  return caught;
}

function assertBound(startedAt: number, bound: number): void {
  const tookMs = performance.now() - startedAt;
  assert.ok(tookMs < bound, `it took ${Math.round(tookMs)} ms`);
}
