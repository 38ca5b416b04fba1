// Elastic jobs as horovodrun sees them: real processes that are killed, stopped, replaced and taken in.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FlightDump } from '../../src/observe/flight-recorder/flight-dump.ts';
import type { JobView } from '../../src/observe/status/job-view.ts';
import { loadNative } from '../../src/transport/native/load.ts';
import { checkTrace } from '../support/check-trace.ts';
import { type FaultJob, startFaultJob } from '../support/fault-job.ts';
import { repository } from '../support/repository.ts';

const command = join(repository, 'dist/cli/main.js');

interface Place {
  readonly generation: number;
  readonly worker: number;
  readonly rank: number;
  readonly size: number;
  readonly pid: number;
}

interface ElasticTest {
  readonly job: FaultJob;
  readonly folder: string;
  /** Resolves with the members of a generation, by rank, when all of them train. */
  members(generation: number): Promise<Place[]>;
  /** Lets the ranks finish. */
  finish(text?: string): void;
  /** Workers that start from now on stay out until the function that it returns is called: no replacement comes early. */
  hold(): () => void;
}

const hasAddon = process.env['HOROVOD_NATIVE'] !== '0' && loadNative().built;
const transports = [
  { title: 'shm', env: { HOROVOD_TRANSPORT: 'shm' }, flags: [] },
  { title: 'portable', env: { HOROVOD_TRANSPORT: 'portable' }, flags: [] },
  { title: 'tcp, two hosts', env: {}, flags: ['-H', 'localhost:1,127.0.0.1:1'] },
];

interface ElasticOptions {
  readonly flags: readonly string[];
  readonly way?: string;
  readonly folder?: string;
  readonly env?: NodeJS.ProcessEnv;
}

function startElastic(
  t: TestContext,
  np: number,
  { flags, way = '', folder = temporaryFolder(t), env = {} }: ElasticOptions,
): ElasticTest {
  const file = join(folder, 'enough');
  const job = startFaultJob(t, np, 'elastic.ts', { flags, args: [file, way], env });
  return {
    job,
    folder,
    async members(generation) {
      const line = (rank: string) =>
        new RegExp(`generation (\\{"generation":${generation},"worker":\\d+,"rank":${rank},.*\\})`);
      const first = JSON.parse((await job.run.waitForOutput(line('0')))[1] as string) as Place;
      const all = Array.from({ length: first.size }, (_, rank) => job.run.waitForOutput(line(String(rank))));
      return (await Promise.all(all)).map((match) => JSON.parse(match[1] as string) as Place);
    },
    hold() {
      writeFileSync(`${file}.hold`, '');
      return () => rmSync(`${file}.hold`);
    },
    // In one piece: ranks that find it read it.
    finish(text = '') {
      writeFileSync(`${file}.new`, text);
      renameSync(`${file}.new`, file);
    },
  };
}

/** Waits until `horovod status` shows the job of this folder so. */
async function statusOfJob(folder: string, isSo: (view: JobView) => boolean): Promise<JobView> {
  for (;;) {
    const { stdout } = spawnSync(process.execPath, [command, 'status', '--json', '--once'], {
      encoding: 'utf8',
    });
    const { jobs } = JSON.parse(stdout) as { jobs: JobView[] };
    const own = jobs.find((job) => job.command.includes(folder));
    if (own !== undefined && isSo(own)) return own;
    await sleep(50);
  }
}

function temporaryFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'horovod-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

describe('elastic jobs on one host', { concurrency: 2 }, () => {
  test('a rank that is killed, and one that is stopped, are replaced, and the job finishes (test_fault_tolerance_without_scaling)', async (t) => {
    const logs = join(temporaryFolder(t), 'logs');
    const flags = ['--min-np', '1', '--output-filename', logs];
    const env = { HOROVOD_LOG_LEVEL: 'info' };
    const { job, folder, members, finish, hold } = startElastic(t, 2, { flags, env });
    const [, second] = await members(1);
    const letReplacementIn = hold();
    process.kill(second?.pid as number, 'SIGKILL');
    assert.equal((await members(2)).length, 1);
    await job.errorOutput(
      /^horovodrun: rank 1 on localhost was killed by SIGKILL; 1 rank continues after \d+ ms, no steps repeated \(generation 2\)\.$/m,
    );
    letReplacementIn();
    const whole = await members(3);
    assert.deepEqual(
      whole.map(({ worker }) => worker),
      [0, 2],
    );
    await job.errorOutput(
      /^horovodrun: rank 1 on localhost has joined; 2 ranks continue after \d+ ms, no steps repeated \(generation 3\)\.$/m,
    );
    await job.errorOutput(
      /generation 2 of the job has begun, with 1 rank; this one was rank 0 of 2\. Lost: rank 1 on localhost was killed by SIGKILL\. New: none\./,
    );
    await job.errorOutput(
      /generation 3 .*; this one is new\. Lost: none\. New: 1\. \d+ ms, no steps repeated\./,
    );
    const shown = await statusOfJob(folder, (view) => view.generation === 3 && view.news?.generation === 3);
    assert.deepEqual([shown.ranks.length, shown.news?.resets, shown.news?.standbys], [2, 2, 0]);
    assert.deepEqual(
      shown.news?.lastResets.map(({ what }) => what),
      ['rank 1 on localhost was killed by SIGKILL', 'rank 1 on localhost has joined'],
    );
    const letNextIn = hold();
    process.kill(whole[0]?.pid as number, 'SIGSTOP');
    assert.deepEqual(
      (await members(4)).map(({ worker }) => worker),
      [2],
    );
    await job.errorOutput(
      /rank 0 on localhost was ended by horovodrun \(SIGKILL\): it was stopped, and other ranks wait for it; 1 rank continues/,
    );
    // Worker 2 was rank 1 of that generation, and names what it has lost by its rank.
    await job.run.waitForOutput(
      /reset \{.*"message":"ERR_HVD_PEER_LOST: rank 0 \(pid \d+\) was killed by SIGKILL"/,
    );
    letNextIn();
    await members(5);
    finish();
    assert.deepEqual(await job.ended(), { exitCode: 0, signal: null });
    assert.match(
      job.run.stderr,
      /the job has finished in spite of 2 lost ranks: 4 resets, \d+ ms altogether, no steps repeated\.\n {2}rank 1 on localhost was killed/,
    );
    assert.match(job.run.stdout, /^\[0\]<stdout>:finished \{"worker":2,"rank":0,"size":2\}$/m);
    for (const worker of [0, 1, 2, 3]) assert.ok(existsSync(join(logs, `worker.${worker}`, 'stderr')));
    assert.match(
      readFileSync(join(logs, 'worker.1', 'stdout'), 'utf8'),
      /"generation":1,"worker":1,"rank":1/,
    );
  });

  test('a spare takes the place of a lost rank in the same reset; more than --reset-limit end the job', async (t) => {
    const flags = ['--min-np', '2', '--max-np', '2', '--spares', '1', '--reset-limit', '1'];
    const { job, members } = startElastic(t, 2, { flags });
    const [first, second] = await members(1);
    // Whoever is up first is in; the third is the spare. It is up when it has said so, and waits since then.
    const spare = [0, 1, 2].find((each) => each !== first?.worker && each !== second?.worker);
    await job.run.waitForOutput(new RegExp(`ready \\{"pid":\\d+,"worker":${spare}\\}`));
    process.kill(second?.pid as number, 'SIGKILL');
    const next = await members(2);
    assert.deepEqual(
      next.map(({ worker }) => worker),
      [first?.worker, spare],
    );
    process.kill(first?.pid as number, 'SIGKILL');
    assert.equal((await job.ended()).exitCode, 1);
    assert.match(job.run.stdout, /caught .*ERR_HVD_RESET_LIMIT/);
    assert.match(
      job.run.stderr,
      /The job has failed: the job needs another reset, and --reset-limit 1 is reached\./,
    );
    assert.match(
      job.run.stderr,
      /Resets before that:\n {2}rank 1 on localhost was killed by SIGKILL; rank 1 on localhost has joined/,
    );
  });

  test('fewer than --min-np for --elastic-timeout end the job', async (t) => {
    const flags = ['--min-np', '2', '--cooldown-range', '0', '0', '--elastic-timeout', '1.5'];
    const { job, members } = startElastic(t, 2, { flags });
    const [first] = await members(1);
    process.kill(first?.pid as number, 'SIGKILL');
    assert.equal((await job.ended()).exitCode, 1);
    assert.match(job.run.stderr, /horovodrun: 1 rank left, and --min-np is 2: waiting for more\./);
    assert.match(job.run.stdout, /caught .*ERR_HVD_TOO_FEW_RANKS/);
    assert.match(
      job.run.stderr,
      /only 1 rank was available for 1\.5 s \(--elastic-timeout\), and --min-np is 2/,
    );
  });

  test('an error on all ranks ends the job with that error', async (t) => {
    const { job, members, finish } = startElastic(t, 2, { flags: ['--min-np', '1'], way: 'throw' });
    await members(1);
    finish();
    assert.equal((await job.ended()).exitCode, 1);
    assert.match(job.run.stderr, /no rank of generation \d is left, so its state is lost/);
    assert.match(job.run.stderr, /RangeError: the loss is not a number/);
    assert.match(job.run.stderr, /To see what each rank did last, run: .*horovod flight-report /);
    assert.match(job.run.stderr, /Exit code: 1/);
  });

  test('a rank that exits with code 0 before it is done is lost; the others finish without it', async (t) => {
    const { job, members, finish } = startElastic(t, 2, {
      flags: ['--min-np', '1', '--cooldown-range', '0', '0'],
      way: 'exit',
    });
    await members(1);
    finish();
    await members(2);
    assert.equal((await job.ended()).exitCode, 0);
    assert.match(
      job.run.stderr,
      /rank 1 on localhost exited with code 0 without calling shutdown\(\); 1 rank continues/,
    );
  });

  test('a signal to horovodrun ends everything', async (t) => {
    const { job, members } = startElastic(t, 2, { flags: ['--min-np', '1'] });
    await members(1);
    job.run.child.kill('SIGTERM');
    assert.deepEqual(await job.ended(), { exitCode: 143, signal: null });
    assert.match(job.run.stderr, /received SIGTERM; stopping 2 ranks/);
  });

  for (const [min, phase] of [
    ['1', 'the others train'],
    ['2', 'the others wait'],
  ] as const) {
    test(`if horovodrun is killed while ${phase}, everything ends`, async (t) => {
      const { job, members, hold } = startElastic(t, 2, { flags: ['--min-np', min] });
      const places = await members(1);
      await job.allSaid([0, 1], 'ready');
      hold();
      process.kill(places[1]?.pid as number, 'SIGKILL');
      if (min === '1') await members(2);
      else await job.errorOutput(/1 rank left, and --min-np is 2: waiting for more/);
      // The end of the test checks that no process is left, the new worker included.
      await job.said(1, 'ready', 2);
      job.run.child.kill('SIGKILL');
      await job.ended();
    });
  }

  for (const { title, env, flags } of transports) {
    const skip = !hasAddon && title !== 'portable' ? 'there is no native addon, or HOROVOD_NATIVE=0' : false;
    test(`killed, stopped, hanging and throwing ranks are replaced, while too few are left: ${title}`, {
      skip,
    }, async (t) => {
      const records = temporaryFolder(t);
      const { job, members, finish } = startElastic(t, 2, {
        flags: ['--min-np', '2', '--hang-timeout', '1', '--blacklist-cooldown-range', '0.1', '0.2', ...flags],
        way: 'one',
        env: { ...env, HOROVOD_FLIGHT_DIR: records },
      });
      const second = async (generation: number) => (await members(generation))[1] as Place;
      process.kill((await second(1)).pid, 'SIGKILL');
      await job.errorOutput(/1 rank left, and --min-np is 2: waiting for more/);
      process.kill((await second(2)).pid, 'SIGSTOP');
      await job.errorOutput(
        /rank 1 on \S+ was ended by horovodrun .* it was stopped, and other ranks wait for it/,
      );
      finish(`${(await second(3)).pid} hangs`);
      await job.errorOutput(
        /rank 1 on \S+ was ended by horovodrun .* it used no processor for longer than --hang-timeout, while all/,
      );
      // It was asked for one before.
      const { reason } = JSON.parse(readFileSync(join(records, 'rank-1.g3.json'), 'utf8')) as FlightDump;
      assert.equal(reason, 'asked');
      finish(`${(await second(4)).pid} throws`);
      await job.errorOutput(
        /rank 1 on \S+ exited with code 1 \(RangeError: the loss of one rank is not a number\)/,
      );
      await members(5);
      finish();
      assert.deepEqual(await job.ended(), { exitCode: 0, signal: null });
      assert.match(job.run.stderr, /the job has finished in spite of 4 lost ranks: 4 resets/);
      assert.match(job.run.stdout, new RegExp(`"generation":5,.*"transport":"${title.split(',')[0]}"`));
    });
  }

  test('a rank that computes for ever is lost after the operation timeout, because all others blame it', async (t) => {
    const { job, members, finish } = startElastic(t, 3, {
      flags: ['--min-np', '1', '--cooldown-range', '0', '0'],
      way: 'one',
      env: { HOROVOD_TIMEOUT_SECONDS: '4' },
    });
    const [, , last] = await members(1);
    finish(`${last?.pid} spins`);
    await job.errorOutput(/rank 2 on localhost was ended by horovodrun \(SIGKILL\): other ranks wait for it/);
    finish();
    assert.deepEqual(await job.ended(), { exitCode: 0, signal: null });
  });

  test('in a job that is not elastic, run() trains once with the state of rank 0, and a lost rank ends the job', async (t) => {
    const { job } = startElastic(t, 2, { flags: [] });
    const places = await Promise.all(
      [0, 1].map((rank) =>
        job.run.waitForOutput(
          new RegExp(`\\{"generation":0,.*"rank":${rank},"size":2,"pid":(\\d+),.*"sum":([\\d.e-]+)\\}`),
        ),
      ),
    );
    assert.equal(places[0]?.[2], places[1]?.[2]);
    process.kill(Number(places[1]?.[1]), 'SIGKILL');
    assert.notEqual((await job.ended()).exitCode, 0);
    assert.match(job.run.stdout, /^\[0\]<stdout>:caught .*"code":"ERR_HVD_PEER_LOST"/m);
    assert.match(job.run.stderr, /First failure:\n +rank 1 on localhost \(pid \d+\) was killed by SIGKILL/);
  });

  test('a script that cannot start fails at once', async (t) => {
    const job = startFaultJob(t, 2, 'no-such-script.ts', { flags: ['--min-np', '1'] });
    assert.notEqual((await job.ended()).exitCode, 0);
    assert.match(
      job.run.stderr,
      /It could not continue: no worker has come up: worker \d on localhost could not be started: /,
    );
  });
});

describe('host discovery', () => {
  test('hosts that come are taken in, hosts that go are given up (test_run_with_discovery_script)', async (t) => {
    const folder = temporaryFolder(t);
    const list = (hosts: string) => {
      writeFileSync(join(folder, 'hosts.new'), hosts);
      renameSync(join(folder, 'hosts.new'), join(folder, 'hosts'));
    };
    const script = join(folder, 'hosts.sh');
    writeFileSync(script, `#!/bin/sh\ncat ${join(folder, 'hosts')}\n`);
    chmodSync(script, 0o755);
    list('localhost:1\n');
    const timeline = join(folder, 'trace.json');
    const flags = ['--host-discovery-script', script, '--timeline-filename', timeline];
    const { job, members, finish } = startElastic(t, 1, { flags, folder });
    assert.equal((await members(1)).length, 1);
    list('localhost:1\n127.0.0.1\n');
    assert.equal((await members(2)).length, 2);
    await job.errorOutput(/rank 1 on 127\.0\.0\.1 has joined; 2 ranks continue/);
    list('nonsense here\n');
    await job.errorOutput(/the hosts cannot be found, so the last list stays: .*printed "nonsense here"/);
    list('127.0.0.1\n');
    await job.errorOutput(
      /rank 0 on localhost was given up, because its host has no slot for it any more; 1 rank continues/,
    );
    const [left] = await members(3);
    assert.equal(left?.worker, 1);
    finish();
    assert.equal((await job.ended()).exitCode, 0);
    assert.match(job.run.stdout, /caught .*ERR_HVD_REMOVED/);
    // Another process is rank 0 since generation 3.
    const resetsIn = (file: string) =>
      checkTrace(file)
        .filter(({ name }) => name === 'RESET')
        .map(({ args }) => args?.['generation']);
    assert.deepEqual(resetsIn(timeline), [2]);
    assert.deepEqual(resetsIn(timeline.replace('.json', '.g3.json')), [3]);
  });
});
