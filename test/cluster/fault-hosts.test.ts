// Hosts and wires that fail under a running job: it ends on every host within its bound, the report names the host and what
// was seen of it, and nothing is left anywhere. Each test has hosts of its own and most of its time is waiting, so several
// run at once.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Box, type BoxProcess, type BoxResult, canUseBox, startBox } from '../support/box.ts';
import {
  assertReports,
  clusterFixture,
  runOnBox,
  startOnBox,
  transportVariants,
} from '../support/box-jobs.ts';

const skip = canUseBox() ?? false;
/** Promised: 2 s after an end that is seen (EOF), and 10 s of silence. */
const promisedMs = { seen: 2_000, silent: 10_000 };
const hosts = 'host1:2,host2:1,host3:1';
const ranks = [0, 1, 2, 3];

interface Fault {
  readonly title: string;
  readonly bound: keyof typeof promisedMs;
  readonly hurt: (box: Box) => Promise<void> | void;
  /** What the report must say. */
  readonly reports: readonly RegExp[];
  /** Hosts that cannot be looked at while the fault lasts: stopped processes cannot end. */
  readonly stopped?: string;
}

const faults: Fault[] = [
  {
    title: 'a host crashes',
    bound: 'silent',
    hurt: (box) => box.crash('host2'),
    reports: [/host2/],
  },
  {
    title: 'a host freezes',
    bound: 'silent',
    hurt: (box) => box.freeze('host2'),
    reports: [/host2/],
    stopped: 'host2',
  },
  {
    title: 'the cable of a host is cut',
    bound: 'silent',
    hurt: (box) => box.cut('host3'),
    reports: [/host3/],
  },
  {
    title: 'nothing that a host sends arrives at another, the other way round it does',
    bound: 'silent',
    hurt: (box) => box.block('host3', 'host2', 'one-way'),
    reports: [/host[23]/],
  },
  {
    title: 'nothing that a host sends arrives at the host of the launcher',
    bound: 'silent',
    hurt: (box) => box.block('host2', 'host1', 'one-way'),
    reports: [/host2/],
  },
  {
    title: 'a rank on another host is killed',
    bound: 'seen',
    hurt: (box) => killOn(box, 'host2', /steps\.(js|ts)/),
    reports: [/rank 2 on host2 .*SIGKILL/],
  },
  {
    title: 'the agent of a host is killed',
    bound: 'seen',
    hurt: (box) => killOn(box, 'host3', /agent\/main\.js/),
    reports: [/host3/],
  },
];

describe('a job on three hosts', { skip, concurrency: 4 }, () => {
  for (const { title, bound, hurt, reports, stopped } of faults) {
    test(`${title}: it ends everywhere and says why`, async () => {
      await using box = await startBox({ hosts: 3 });
      const { job, boundMs } = await startEndless(box);
      await hurt(box);
      const hurtAt = performance.now();
      const result = await job.endedWithin(boundMs[bound] + 20_000);
      const tookMs = performance.now() - hurtAt;
      assertReports(result, ...reports);
      assertNoSecret(result);
      // Also on the host that is cut off, by itself; a stopped one when it goes on.
      if (stopped !== undefined) await box.thaw(stopped);
      await box.assertNothingLeft(boundMs.silent);
      assert.ok(tookMs < boundMs[bound], `it took ${Math.round(tookMs)} ms\n${result.stderr}`);
    });
  }

  test('the launcher is killed: no rank outlives it on any host', async () => {
    await using box = await startBox({ hosts: 3 });
    const { job, boundMs } = await startEndless(box);
    job.kill('SIGKILL');
    await box.assertNothingLeft(boundMs.seen);
  });

  test('the host of the launcher crashes: no rank outlives it on the others', async () => {
    await using box = await startBox({ hosts: 3 });
    const { boundMs } = await startEndless(box);
    await box.crash('host1');
    await box.assertNothingLeft(boundMs.silent);
  });

  test('Ctrl-C at the launcher ends the ranks on all hosts', async () => {
    await using box = await startBox({ hosts: 3 });
    const { job, boundMs } = await startEndless(box);
    job.kill('SIGINT');
    const { exitCode, stderr } = await job.endedWithin(boundMs.seen);
    assert.equal(exitCode, 130, stderr);
    await box.assertNothingLeft(boundMs.seen);
  });

  for (const { transport, env, skip: why } of transportVariants()) {
    test(`5 % of the packets are lost: it goes on correctly (${transport})`, { skip: why }, async () => {
      await using box = await startBox({ hosts: 2 });
      await box.loss('host1', 5);
      await box.loss('host2', 5);
      const job = await runOnBox(box, clusterFixture('steps.ts'), {
        hosts: 'host1:1,host2:1',
        args: ['60', '0'],
        env,
      });
      assert.equal(job.exitCode, 0, `${job.stdout}\n${job.stderr}`);
      for (const { stdout } of job.ranks) assert.match(stdout, /^done /m);
      await box.assertNothingLeft();
    });
  }

  test('two jobs at once on the same hosts do not notice each other', async () => {
    await using box = await startBox({ hosts: 2 });
    const both = ['host1', 'host2'].map((from) =>
      runOnBox(box, clusterFixture('steps.ts'), { hosts: 'host1:1,host2:1', from, args: ['200'] }),
    );
    for (const job of await Promise.all(both)) {
      assert.equal(job.exitCode, 0, `${job.stdout}\n${job.stderr}`);
      for (const { stdout } of job.ranks) assert.match(stdout, /^done /m);
    }
    await box.assertNothingLeft();
  });

  test('a rank with a wrong secret on another host is rejected, and the job does not notice', async () => {
    await using box = await startBox({ hosts: 3 });
    const job = startOnBox(box, clusterFixture('steps.ts'), { hosts: 'host1:1,host2:1', args: ['600'] });
    const [, address = ''] = await job.waitForOutput(/ready .*"rendezvous":"([^"]+)"/);
    const stranger = await box.exec('host3', [process.execPath, clusterFixture('steps.ts'), '1'], {
      env: {
        HOROVOD_RENDEZVOUS_ADDR: address,
        HOROVOD_RANK: '1',
        HOROVOD_SIZE: '2',
        HOROVOD_JOB_ID: 'strange',
        _HOROVOD_SECRET_KEY: 'ab'.repeat(32),
        HOROVOD_START_TIMEOUT: '10',
      },
    });
    assert.match(stranger.stdout, /caught .*"code":"ERR_HVD_RENDEZVOUS"/, stranger.stderr);
    assert.doesNotMatch(stranger.stdout, /abababab/, 'a secret is not shown, not even a wrong one');
    const { exitCode, stdout, stderr } = await job.endedWithin(60_000);
    assert.equal(exitCode, 0, stderr);
    assert.equal(stdout.match(/done /g)?.length, 2, stdout);
    await box.assertNothingLeft();
  });
});

/**
 * A job in full swing, and how long it may take to end: what is promised, and twice as long as this machine took to start it,
 * which may have more to do.
 */
async function startEndless(box: Box): Promise<{ job: BoxProcess; boundMs: typeof promisedMs }> {
  const startedAt = performance.now();
  const job = startOnBox(box, clusterFixture('steps.ts'), { hosts, args: ['endless'] });
  for (const rank of ranks) await job.waitForOutput(new RegExp(`^\\[${rank}\\]<stdout>:first`, 'm'));
  const extraMs = 2_000 + 2 * (performance.now() - startedAt);
  return { job, boundMs: { seen: promisedMs.seen + extraMs, silent: promisedMs.silent + extraMs } };
}

/** Kills the process of that host whose command matches; the one that is deepest in the tree. */
function killOn(box: Box, host: string, pattern: RegExp): void {
  const found = box.processesOn(host).filter(({ command }) => pattern.test(command));
  // A shell or ssh session that started it has the same words in its command line.
  const victim = found.filter(({ command }) => /^\S*node/.test(command)).at(-1);
  assert.ok(victim !== undefined, `no ${pattern} on ${host}`);
  process.kill(victim.pid, 'SIGKILL');
}

function assertNoSecret({ stdout, stderr }: BoxResult): void {
  assert.doesNotMatch(`${stdout}${stderr}`, /SECRET_KEY=|"secret"/i);
}
