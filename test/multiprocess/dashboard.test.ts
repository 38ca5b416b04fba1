// The dashboard of whole jobs: in their launcher and beside them, seen by a client that does what a browser does.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import type { DashboardStart, Sample } from '../../src/observe/dashboard/messages.ts';
import { shortJobId } from '../../src/rendezvous/short-job-id.ts';
import { type HorovodrunProcess, startHorovodrun } from '../../src/testing/spawn-ranks.ts';
import { describeNative } from '../../src/transport/native/describe-native.ts';
import { DashboardClient, type EventReader } from '../support/dashboard-client.ts';
import { assertEnded } from '../support/fault-job.ts';
import { fixturePath, repository } from '../support/repository.ts';

const fixture = fixturePath('status/train.ts');
const horovod = join(repository, 'dist/cli/main.js');
const patienceMs = 60_000;

interface Training {
  readonly folder: string;
  readonly run: HorovodrunProcess;
  /** The ranks end by themselves. */
  stop(): void;
}

function train(
  t: TestContext,
  flags: readonly string[],
  ranks = 2,
  script = fixture,
  env: NodeJS.ProcessEnv = {},
): Training {
  const folder = mkdtempSync(join(tmpdir(), 'hvd-dashboard-'));
  const stop = join(folder, 'stop');
  const all = flags.map((flag) => flag.replace('FOLDER', folder));
  const run = startHorovodrun(['-np', String(ranks), ...all, '--', script, stop], { env });
  t.after(async () => {
    run.child.kill('SIGKILL');
    await run.ended;
    rmSync(folder, { recursive: true, force: true });
  });
  return { folder, run, stop: () => writeFileSync(stop, '') };
}

/** The first match in what a process prints, from now on or `before`. */
function printed(
  { child, before = '' }: { readonly child: ChildProcess; readonly before?: string },
  name: 'stdout' | 'stderr',
  pattern: RegExp,
): Promise<RegExpExecArray> {
  return new Promise((resolve, reject) => {
    let text = before;
    const fail = (why: string) => {
      clearTimeout(deadline);
      reject(new Error(`${pattern} was not printed ${why}:\n${text}`));
    };
    const deadline = setTimeout(() => fail('in time'), patienceMs);
    const look = () => {
      const match = pattern.exec(text);
      if (match === null) return;
      clearTimeout(deadline);
      resolve(match);
    };
    child.once('close', () => fail('before the end'));
    child[name]?.on('data', (piece: Buffer) => {
      text += piece.toString('utf8');
      look();
    });
    look();
  });
}

const urlPattern = /Dashboard: (http:\/\/127\.0\.0\.1:\d+\/\?token=[0-9a-f]{32})/;

/** Of horovodrun, or of `horovod dashboard`, which prints the URL on stdout. */
async function openPage(process: HorovodrunProcess | ChildProcess) {
  const [, url = ''] =
    'child' in process
      ? await printed({ child: process.child, before: process.stderr }, 'stderr', urlPattern)
      : await printed({ child: process }, 'stdout', urlPattern);
  const client = await DashboardClient.open(url);
  const events = client.events();
  return { client, events, start: await events.start(), url };
}

function linesOf(events: EventReader): string[] {
  return events.received.flatMap((one) => {
    const lines = one.event === 'logs' ? one.data : one.event === 'start' ? one.data.logs : [];
    return lines.map(({ rank, stream, text }) => `${rank} ${stream} ${text}`);
  });
}

const samplesOf = (events: EventReader) =>
  events.received.flatMap((one) => (one.event === 'sample' ? [one.data] : []));

const newsOf = (events: EventReader) =>
  events.received.flatMap((one) => (one.event === 'news' ? one.data : []));

const endOf = (events: EventReader) =>
  events.until('the end', (all) => all.flatMap((one) => (one.event === 'end' ? [one.data] : [])).at(0));

describe('horovodrun --dashboard', () => {
  test('shows ranks that train, what they print, and the end, and saves the page', async (t) => {
    const { folder, run, stop } = train(t, [
      '--dashboard',
      '--dashboard-save',
      'FOLDER/run.html',
      '--verbose',
    ]);
    const { client, events, start } = await openPage(run);
    assert.equal(start.job.command.includes('train'), true);
    assert.deepEqual(
      start.job.settings.find(({ name }) => name === '--dashboard-save')?.value,
      join(folder, 'run.html'),
    );
    assert.equal(start.hasControl, false);
    const sample = await events.sample(
      'two ranks that train',
      ({ ranks, headline }) =>
        ranks.length === 2 &&
        ranks.every(({ step, tone }) => step > 10 && tone === 'good') &&
        headline.tone === 'good',
    );
    assert.ok(sample.headline.samplesPerSecond > 0);
    assert.ok(Number(sample.metrics['loss']) < 1);
    await events.until('what rank 1 prints', () =>
      linesOf(events).includes('1 stderr <script>alert("rank 1")</script>'),
    );
    await events.until('the launcher', () =>
      linesOf(events).some((line) => /^-1 stderr job [0-9a-f]+: 2 ranks/.test(line)),
    );
    assert.equal((await client.post('stop', {})).status, 403);
    stop();
    const end = await endOf(events);
    assert.equal(end.isSuccess, true);
    assert.match(end.text, /^All ranks have finished after/);
    assert.deepEqual(
      newsOf(events)
        .filter(({ kind }) => kind === 'end')
        .map(({ report }) => report),
      [undefined],
      'there is no more to say',
    );
    assert.ok(linesOf(events).includes('0 stdout rank 0 has finished'));
    const { exitCode } = await run.ended;
    assert.equal(exitCode, 0, run.stderr);
    assert.match(readFileSync(join(folder, 'run.html'), 'utf8'), /rank 1 has finished/);
    const last = events.received
      .flatMap((one) => (one.event === 'start' ? [one.data] : []))
      .at(-1) as DashboardStart;
    assert.deepEqual(last.job.hosts, [{ host: 'localhost', slots: 2 }]);
    await assert.rejects(client.get(''), { code: 'ECONNREFUSED' });
  });

  test('shows a lost rank in red within 2 s, and why the job has failed', async (t) => {
    const { run } = train(t, ['--dashboard'], 3);
    const { events } = await openPage(run);
    const { ranks } = await events.sample(
      'three ranks',
      (sample) => sample.ranks.every(({ step }) => step > 0) && sample.ranks.length === 3,
    );
    const killedAt = Date.now();
    process.kill(ranks[1]?.pid ?? 0, 'SIGKILL');
    const red = await events.sample('a red rank', (sample) => sample.ranks[1]?.tone === 'bad');
    assert.equal(red.ranks[1]?.presence, 'lost');
    assert.match(red.headline.text, /^rank 1 on localhost was killed by SIGKILL/);
    // Looks are a second apart: not the one that may have been on its way, nor the next.
    const late = samplesOf(events).filter(
      ({ at, ranks: [, second] }) => at > killedAt && second?.tone !== 'bad',
    );
    assert.ok(late.length <= 2, `${late.length} looks later`);
    const end = await endOf(events);
    assert.equal(end.isSuccess, false);
    // The cause is the headline, with what horovodrun reports below it.
    assert.match(end.text, /^rank 1 on localhost \(pid \d+\) was killed by SIGKILL\n.*\nOther ranks:/s);
    const lost = events.received
      .flatMap((one) => (one.event === 'news' ? one.data : []))
      .filter(({ kind }) => kind === 'lost');
    assert.match(lost[0]?.text ?? '', /^rank 1 \(localhost, pid \d+\) was killed by SIGKILL, in step \d+$/);
    const flight = newsOf(events).find(({ text }) => /^Flight report/.test(text));
    assert.match(flight?.report ?? '', /Culprit: rank 1/);
    assert.equal((await run.ended).exitCode, 137);
  });

  test('shows a job whose ranks all run on another machine, and a lost one', async (t) => {
    const shell = join(mkdtempSync(join(tmpdir(), 'hvd-dashboard-')), 'shell');
    t.after(() => rmSync(dirname(shell), { recursive: true, force: true }));
    // A machine with another name.
    writeFileSync(shell, '#!/bin/sh\nshift\nexec /bin/sh -c "$*"\n');
    chmodSync(shell, 0o755);
    const { run } = train(t, ['--dashboard', '-H', 'far:2'], 2, fixture, { OMPI_MCA_plm_rsh_agent: shell });
    const { events } = await openPage(run);
    const { ranks } = await events.sample(
      'ranks of the other machine',
      (sample) =>
        sample.ranks.length === 2 && sample.ranks.every(({ host, step }) => host === 'far' && step > 0),
    );
    await events.until('output', () =>
      linesOf(events).some((line) => /^0 stdout rank 0 has begun/.test(line)),
    );
    process.kill(ranks[1]?.pid ?? 0, 'SIGKILL');
    const red = await events.sample('a red rank', (sample) => sample.ranks[1]?.tone === 'bad');
    assert.match(red.headline.text, /^rank 1 on far was killed by SIGKILL/);
    assert.equal((await endOf(events)).isSuccess, false);
    assert.equal((await run.ended).exitCode, 137);
  });

  test('lets the page stop the job with --dashboard-control, and stays with --dashboard-keep', async (t) => {
    const { run } = train(t, ['--dashboard', '--dashboard-control', '--dashboard-keep']);
    const { client, events, start } = await openPage(run);
    assert.equal(start.hasControl, true);
    await events.sample('ranks', ({ ranks }) => ranks.length === 2 && ranks.every(({ step }) => step > 0));
    assert.equal((await client.post('stop', {})).status, 202);
    const end = await endOf(events);
    assert.equal(end.isSuccess, false);
    await printed({ child: run.child, before: run.stderr }, 'stderr', /the dashboard stays at http/);
    const again = client.events();
    const kept = await again.start();
    assert.deepEqual(kept.end, end);
    assert.ok(kept.samples.length > 0);
    run.child.kill('SIGINT');
    assert.equal((await run.ended).exitCode, 143);
    await again.untilClosed();
  });

  test('records the next steps, and shows the picture and the file', async (t) => {
    const temporary = mkdtempSync(join(tmpdir(), 'hvd-dashboard-'));
    t.after(() => rmSync(temporary, { recursive: true, force: true }));
    const { run, stop } = train(t, ['--dashboard', '--dashboard-control'], 2, fixture, { TMPDIR: temporary });
    const { client, events } = await openPage(run);
    const early = await client.post('record', { steps: 5 });
    if (early.status !== 202) {
      assert.match(early.body, /The timeline cannot be recorded: no rank trains at the moment/);
      await events.sample('ranks', ({ ranks }) => ranks.length === 2 && ranks.every(({ step }) => step > 0));
      assert.equal((await client.post('record', { steps: 5 })).status, 202);
    }
    const second = await client.post('record', { steps: 5 });
    assert.deepEqual(
      [second.status, second.body],
      [409, 'The timeline cannot be recorded: a timeline is being recorded already.\n'],
    );
    await events.until('the file', () => newsOf(events).some(({ href }) => href === 'timeline/1.json'));
    assert.deepEqual(
      newsOf(events)
        .filter(({ kind }) => kind === 'timeline')
        .map(({ tone, href }) => [tone, href]),
      [
        ['good', undefined],
        ['good', 'timeline/1.html'],
        ['good', 'timeline/1.json'],
      ],
    );
    const file = await client.get('timeline/1.json');
    assert.match(String(file.headers['content-disposition']), /attachment; filename="timeline-1\.json"/);
    const trace = JSON.parse(file.body) as { name: string; pid: number }[];
    const steps = trace.filter(({ name }) => /^step \d+$/.test(name));
    // The ranks are some steps ahead while rank 0 opens the file.
    const pids = [...new Set(steps.map(({ pid }) => pid))];
    assert.equal(pids.length, 2);
    for (const pid of pids) assert.ok(steps.filter((step) => step.pid === pid).length >= 5);
    const picture = await client.get('timeline/1.html');
    assert.match(String(picture.headers['content-security-policy']), /^sandbox/);
    assert.match(picture.body, /<title>Timeline timeline-1\.json/);
    stop();
    assert.equal((await run.ended).exitCode, 0, run.stderr);
    assert.deepEqual(readdirSync(temporary), [], 'the recordings are gone');
  });

  test('leaves nothing when the launcher is killed', async (t) => {
    const { run } = train(t, ['--dashboard']);
    const { client, events } = await openPage(run);
    const { ranks } = await events.sample(
      'ranks',
      (sample) => sample.ranks.length === 2 && sample.ranks.every(({ pid }) => pid > 0),
    );
    run.child.kill('SIGKILL');
    await run.ended;
    await events.untilClosed();
    await assert.rejects(client.get(''), { code: 'ECONNREFUSED' });
    for (const { pid } of ranks) await assertEnded(pid);
  });

  test('starts nothing if the port is taken or a flag is missing, and says which', async (t) => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    t.after(() => other.close());
    const { port } = other.address() as { port: number };
    const taken = train(t, [`--dashboard=${port}`]).run;
    assert.equal((await taken.ended).exitCode, 2);
    assert.match(
      taken.stderr,
      new RegExp(`--dashboard: the dashboard cannot listen on 127.0.0.1:${port}: port ${port} is in use`),
    );
    assert.doesNotMatch(taken.stdout, /has begun/);
    const lonely = train(t, ['--dashboard-control']).run;
    assert.equal((await lonely.ended).exitCode, 2);
    assert.match(lonely.stderr, /--dashboard-control needs --dashboard\./);
  });

  test('shows an elastic job, with the reset after a loss', async (t) => {
    const { run, stop } = train(t, ['--dashboard', '--min-np', '1'], 2, fixturePath('faults/elastic.ts'));
    const { events } = await openPage(run);
    const { ranks } = await events.sample(
      'two ranks',
      (sample) =>
        sample.generation === 1 && sample.ranks.length === 2 && sample.ranks.every(({ step }) => step > 0),
    );
    process.kill(ranks[1]?.pid ?? 0, 'SIGKILL');
    const reset = await events.until('a reset', (all) =>
      all.flatMap((one) => (one.event === 'news' ? one.data : [])).find(({ kind }) => kind === 'reset'),
    );
    assert.match(
      reset.text,
      /^rank 1 on localhost was killed by SIGKILL; generation 2 has \d ranks?, after \d+ ms/,
    );
    const later = await events.sample(
      'the next generation',
      (sample) => (sample.generation ?? 0) >= 2 && sample.ranks.some(({ step }) => step > 0),
    );
    assert.notEqual(later.headline.tone, 'bad');
    await events.until('what rank 0 prints', () =>
      linesOf(events).some((line) => /^0 stdout generation /.test(line)),
    );
    stop();
    assert.equal((await endOf(events)).isSuccess, true);
    assert.equal((await run.ended).exitCode, 0, run.stderr);
  });
});

test('run({ dashboard }) prints the URL, shows output that is shown nowhere else, and lets the page stop the job', async (t) => {
  const child = spawn(process.execPath, [fixturePath('status/run-dashboard.ts')], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  const exited = once(child, 'exit');
  const failed = printed({ child }, 'stdout', /run\(\) has failed: (\w+)/);
  const [, url = ''] = await printed({ child }, 'stderr', urlPattern);
  const client = await DashboardClient.open(url);
  const events = client.events();
  assert.equal((await events.start()).job.command, 'run(train)');
  await events.sample('two ranks', ({ ranks }) => ranks.length === 2 && ranks.every(({ step }) => step > 0));
  await events.until('output', () => linesOf(events).includes('1 stdout rank 1 trains'));
  assert.equal((await client.post('stop', {})).status, 202);
  assert.equal((await endOf(events)).isSuccess, false);
  assert.equal((await failed)[1], 'ERR_HVD_RUN');
  assert.deepEqual(await exited, [0, null]);
});

describe('horovod dashboard', () => {
  function beside(t: TestContext, args: readonly string[]): ChildProcess {
    const child = spawn(process.execPath, [horovod, 'dashboard', ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    t.after(() => child.kill('SIGKILL'));
    return child;
  }

  test('shows a job that runs already, with the files of its output, and ends with it', async (t) => {
    const { folder, run, stop } = train(t, ['--output-filename', 'FOLDER/out', '--verbose']);
    await run.waitForOutput(/rank 0 has begun/);
    await run.waitForOutput(/rank 1 has begun/);
    const id = shortJobId(/job ([0-9a-f]{16}): 2 ranks/.exec(run.stderr)?.[1] ?? '');
    const child = beside(t, [
      '--job',
      id,
      '--output-dir',
      join(folder, 'out'),
      '--save',
      join(folder, 'run.html'),
    ]);
    const exited = once(child, 'exit');
    const { events, start } = await openPage(child);
    assert.equal(start.job.id, id);
    assert.match(start.job.command, /train/);
    await events.sample('ranks', ({ ranks }) => ranks.length === 2 && ranks.every(({ step }) => step > 0));
    await events.until('a line', () => linesOf(events).includes('1 stderr <script>alert("rank 1")</script>'));
    stop();
    const end = await endOf(events);
    assert.equal(end.isSuccess, true, end.text);
    assert.ok(linesOf(events).includes('0 stdout rank 0 has finished'));
    assert.deepEqual(await exited, [0, null]);
    assert.match(readFileSync(join(folder, 'run.html'), 'utf8'), /rank 0 has finished/);
  });

  const mpi = describeNative({ transport: 'mpi', launcher: { kind: 'open-mpi' } });
  const isWithoutMpi =
    spawnSync('mpirun', ['--version']).status !== 0
      ? 'no mpirun (Debian: apt-get install openmpi-bin)'
      : process.env['HOROVOD_NATIVE'] === '0'
        ? 'HOROVOD_NATIVE=0'
        : !mpi.built && mpi.reason;

  test('shows a job that mpirun has started, like the dashboard of horovodrun --mpi', {
    skip: isWithoutMpi,
  }, async (t) => {
    const { folder, run, stop } = train(t, ['--mpi', '--dashboard']);
    const inside = await openPage(run);
    const trains = ({ ranks }: Sample) => ranks.length === 2 && ranks.every(({ step }) => step > 0);
    await inside.events.sample('ranks, in the launcher', trains);
    const [job] = await inside.events.until('its id', (all) =>
      all.flatMap((one) => (one.event === 'start' && one.data.job.id !== '' ? [[one.data.job]] : [])).at(-1),
    );
    const child = beside(t, ['--job', job?.id ?? '', '--save', join(folder, 'run.html')]);
    const exited = once(child, 'exit');
    const { events, start } = await openPage(child);
    assert.match(start.job.command, /train/);
    assert.match(start.logsMissing ?? '', /--output-filename/);
    await events.sample('ranks, beside it', trains);
    stop();
    assert.equal((await endOf(events)).isSuccess, true);
    assert.equal((await endOf(inside.events)).isSuccess, true);
    assert.deepEqual(await exited, [0, null]);
    assert.equal((await run.ended).exitCode, 0, run.stderr);
  });

  test('says that there is no such job, and how a job gets logs', async (t) => {
    const none = beside(t, ['--job', 'ffffffffffff']);
    const [, text] = await printed(
      { child: none },
      'stderr',
      /(you have no running job on \S+ whose id starts with ffffffffffff)/,
    );
    assert.ok(text);
    assert.deepEqual(await once(none, 'exit'), [1, null]);
  });
});
