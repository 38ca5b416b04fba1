// How jobs end: failures, signals, killed launchers. After every ending no process is left.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Readable, Writable } from 'node:stream';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fixturePath } from '../../test/support/repository.ts';
import { processStatus } from '../control/process-status.ts';
import { type HorovodrunProcess, spawnRanks, startHorovodrun } from '../testing/spawn-ranks.ts';
import { planSlots } from './hosts/plan-slots.ts';
import { Job } from './job.ts';
import { ConsoleWriter } from './output/console-writer.ts';
import { Guardian } from './spawn/guardian.ts';

const fixture = (name: string) => fixturePath(`launch/${name}`);
const started = new Set<HorovodrunProcess>();
after(() => {
  for (const { child } of started) child.kill('SIGKILL');
});

/** Starts ranks that wait, and resolves with the launcher and the pids of all that said `ready`. */
async function startWaiting(np: number, command: readonly string[]) {
  const run = startHorovodrun(['-np', String(np), ...command]);
  started.add(run);
  const pids: number[] = [];
  for (let rank = 0; rank < np; rank++) {
    const [, pid] = await run.waitForOutput(new RegExp(`\\[${rank}\\]<stdout>:ready (\\d+)`));
    pids.push(Number(pid));
  }
  return { run, pids };
}

/** Fails if one of them is still there after a time that is long for a machine under load. */
async function assertEnded(pids: readonly number[]): Promise<void> {
  const deadline = Date.now() + 20_000;
  for (const pid of pids) {
    while (processStatus(pid).state === 'running') {
      assert.ok(Date.now() < deadline, `process ${pid} is still running`);
      await sleep(10);
    }
  }
}

test('the exit code is that of the first rank that fails, and the others are ended', async () => {
  const result = await spawnRanks(3, fixture('fail.ts'), { args: ['1', '3'] });
  assert.equal(result.exitCode, 3, result.stderr);
  assert.match(
    result.stderr,
    /horovodrun: rank 1 on localhost \(pid \d+\) exited with code 3; stopping the other 2 ranks\./,
  );
  assert.match(result.stderr, /First failure:\n {2}rank 1 on localhost \(pid \d+\) exited with code 3\n/);
  assert.match(result.stderr, /Last lines of its stderr:\n {4}it all went wrong\n/);
  assert.match(result.stderr, /rank 0 on localhost \(pid \d+\) was stopped by horovodrun \(SIGTERM\)/);
  assert.equal(result.stderr.split('The job has failed').length, 2);
});

test('with --keep-going a rank that fails leaves the others running, and is reported at once and at the end', async () => {
  // Ranks 0 and 3 end well, after the launcher has reported both failures.
  const script = `
    const rank = Number(process.env.HOROVOD_RANK);
    if (rank === 1) process.kill(process.pid, 'SIGKILL');
    else if (rank === 2) process.exit(5);
    else { setInterval(() => {}, 1000); process.on('SIGUSR1', () => process.exit(0)); console.log('ready ' + process.pid); }`;
  const run = startHorovodrun(['--keep-going', '-np', '4', 'node', '-e', script]);
  started.add(run);
  const [, first] = await run.waitForOutput(/\[0\]<stdout>:ready (\d+)/);
  const [, last] = await run.waitForOutput(/\[3\]<stdout>:ready (\d+)/);
  for (const report of [
    /horovodrun: rank 1 on localhost \(pid \d+\) was killed by SIGKILL; the other [23] ranks keep going\./,
    /horovodrun: rank 2 on localhost \(pid \d+\) exited with code 5; the other [23] ranks keep going\./,
  ]) {
    while (!report.test(run.stderr)) {
      assert.equal(run.child.exitCode, null, run.stderr);
      await Promise.race([once(run.child.stderr as Readable, 'data'), run.ended]);
    }
  }
  for (const pid of [first, last]) {
    assert.equal(processStatus(Number(pid)).state, 'running');
    process.kill(Number(pid), 'SIGUSR1');
  }
  const { exitCode } = await run.ended;
  const [cause] = /(?<=First failure:\n {2}rank )[12]/.exec(run.stderr) ?? [];
  assert.equal(exitCode, cause === '1' ? 137 : 5, run.stderr);
  assert.match(run.stderr, new RegExp(`Other ranks:[^]*rank ${cause === '1' ? 2 : 1} on localhost`));
  assert.match(run.stderr, /rank 0 on localhost \(pid \d+\) exited with code 0\n/);
  assert.ok(!run.stderr.includes('stopping'), run.stderr);
});

test('--keep-going is rejected where it would have no effect', async () => {
  for (const [flags, text] of [
    [['--mpi'], /--keep-going does not work with --mpi/],
    [['--min-np', '1'], /--keep-going has no meaning in an elastic job/],
  ] as const) {
    const run = startHorovodrun(['--keep-going', '-np', '2', ...flags, 'true']);
    assert.equal((await run.ended).exitCode, 2, run.stderr);
    assert.match(run.stderr, text);
  }
});

for (const [signal, code] of [
  ['SIGKILL', 137],
  ['SIGTERM', 143],
  ['SIGSEGV', 139],
] as const) {
  test(`a rank that dies of ${signal} gives exit code ${code}`, async () => {
    const result = await spawnRanks(2, fixture('fail.ts'), { args: ['0', signal] });
    assert.equal(result.exitCode, code, result.stderr);
    assert.match(result.stderr, new RegExp(`rank 0 on localhost \\(pid \\d+\\) was killed by ${signal}`));
  });
}

test('a rank that ends well before the others is no failure', async () => {
  const script = 'if (process.env.HOROVOD_RANK === "1") setTimeout(() => console.log("late"), 200)';
  const run = startHorovodrun(['-np', '2', 'node', '-e', script]);
  assert.equal((await run.ended).exitCode, 0, run.stderr);
  assert.equal(run.stdout, '[1]<stdout>:late\n');
  assert.equal(run.stderr, '');
});

test('a command that does not exist is reported as such, with the exit code of a shell', async () => {
  const run = startHorovodrun(['-np', '2', 'no-such-command-anywhere']);
  assert.equal((await run.ended).exitCode, 127, run.stderr);
  assert.match(run.stderr, /could not be started: no-such-command-anywhere was not found/);
  const notExecutable = startHorovodrun(['-np', '1', '/dev/null']);
  assert.equal((await notExecutable.ended).exitCode, 126);
});

for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
] as const) {
  test(`${signal} to horovodrun reaches every rank, and the exit code is ${code}`, async () => {
    const { run, pids } = await startWaiting(2, [fixture('wait.ts')]);
    run.child.kill(signal);
    assert.equal((await run.ended).exitCode, code, run.stderr);
    assert.match(run.stderr, new RegExp(`horovodrun: received ${signal}; stopping 2 ranks`));
    assert.ok(!run.stderr.includes('The job has failed'));
    await assertEnded(pids);
  });
}

test('a second Ctrl-C ends ranks at once that ignore the first', async () => {
  const { run, pids } = await startWaiting(2, [fixture('wait.ts'), 'SIGINT', 'SIGTERM']);
  run.child.kill('SIGINT');
  for (const rank of [0, 1]) await run.waitForOutput(new RegExp(`\\[${rank}\\]<stdout>:ignored SIGINT`));
  run.child.kill('SIGINT');
  assert.equal((await run.ended).exitCode, 130, run.stderr);
  await assertEnded(pids);
});

test('ranks that ignore SIGTERM get SIGKILL after a while when another has failed', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'horovod-endings-'));
  t.after(() => rmSync(directory, { recursive: true }));
  // Rank 0 fails when rank 1 has its handler.
  const ready = JSON.stringify(join(directory, 'ready'));
  const said: string[] = [];
  const sink = () =>
    new ConsoleWriter(new Writable({ write: (_bytes, _encoding, done) => done() }), () => undefined);
  const script = `
    const { existsSync, writeFileSync } = require('node:fs');
    if (process.env.HOROVOD_RANK === '0') setInterval(() => existsSync(${ready}) && process.exit(4), 10);
    else {
      process.on('SIGTERM', () => undefined);
      writeFileSync(${ready}, '');
      setInterval(() => undefined, 1e9);
    }`;
  const job = await Job.start({
    slots: planSlots(2, [{ name: 'localhost', slots: 2 }]),
    command: [process.execPath, '-e', script],
    driverEnvironment: process.env,
    environment: {},
    prefix: 'none',
    outputDirectory: undefined,
    stdout: sink(),
    stderr: sink(),
    say: (text) => said.push(text),
    explain: () => undefined,
    graceMs: 200,
  });
  assert.equal(await job.finish(), 4);
  assert.match(said.join('\n'), /rank 1 on localhost \(pid \d+\) was stopped by horovodrun \(SIGKILL\)/);
});

const ways: readonly (readonly [string, readonly string[]])[] = [
  ['plain ranks', [fixture('wait.ts')]],
  ['ranks that ignore every signal they can', [fixture('wait.ts'), 'SIGTERM', 'SIGINT', 'SIGHUP', 'SIGPIPE']],
  [
    'ranks inside a shell',
    ['sh', '-c', `"$0" "$1" SIGTERM SIGHUP; true`, process.execPath, fixture('wait.ts')],
  ],
  [
    'ranks behind two shells',
    ['sh', '-c', `sh -c '"$0" "$1"; true' "$0" "$1"; true`, process.execPath, fixture('wait.ts')],
  ],
];
for (const [name, command] of ways) {
  test(`no rank survives a launcher killed by SIGKILL: ${name}`, async () => {
    const { run, pids } = await startWaiting(2, command);
    run.child.kill('SIGKILL');
    await assertEnded(pids);
    assert.equal((await run.ended).signal, 'SIGKILL');
  });
}

test('a launcher killed by SIGKILL in the middle of starting leaves nothing that goes on', async (t) => {
  if (!existsSync('/proc/self/cmdline')) return t.skip('no /proc here to search');
  const marker = `hvd-test-${randomBytes(8).toString('hex')}`;
  for (const delayMs of [60, 90, 120, 150, 180]) {
    const run = startHorovodrun(['-np', '4', fixture('wait.ts'), marker]);
    await sleep(delayMs);
    run.child.kill('SIGKILL');
    await run.ended;
  }
  await assertEnded(processesWith(marker));
  return undefined;
});

function processesWith(marker: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(marker);
      } catch {
        return false;
      }
    })
    .map(Number);
}

test('what a rank has left running in the background ends with the job', async () => {
  const run = startHorovodrun(['-np', '1', 'sh', '-c', `sleep 1000 & echo "ready $!"`]);
  assert.equal((await run.ended).exitCode, 0, run.stderr);
  await assertEnded([Number(/ready (\d+)/.exec(run.stdout)?.[1])]);
});

test('the guardian ends with its launcher, in good order or not', async () => {
  const guardian = Guardian.start('none', undefined);
  await guardian.dismiss();
  await assertEnded([guardian.pid as number]);

  const script = `
    const { Guardian } = await import(${JSON.stringify(new URL('./spawn/guardian.js', import.meta.url).href)});
    console.log('guardian ' + Guardian.start("none").pid);
    setInterval(() => undefined, 1e9);`;
  const launcher = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(launcher.stdout, 'data')) as [Buffer];
  launcher.kill('SIGKILL');
  await assertEnded([Number(/guardian (\d+)/.exec(line.toString())?.[1])]);
});

test('the root cause is reported, not the rank that failed because of it', async () => {
  const result = await spawnRanks(2, fixture('control-block.ts'));
  assert.equal(result.exitCode, 3, result.stderr);
  assert.match(
    result.ranks[0]?.stdout ?? '',
    /^(ERR_HVD_PEER_LOST ERR_HVD_PEER_LOST: rank 1 \(pid \d+\) exited with code 3 \/ cannot read the moon\n)?$/,
  );
  assert.match(result.stderr, /First failure:\n {2}rank 1 on localhost \(pid \d+\) exited with code 3/);
  assert.match(result.stderr, /Its error:\n {4}TypeError: cannot read the moon\n/);
});

test('also when the failed rank is wrapped, and its wrapper ends after the others', async () => {
  const wrapper =
    'if [ "$HOROVOD_RANK" = 1 ]; then "$0" "$1"; code=$?; sleep 0.3; exit $code; fi; exec "$0" "$1"';
  const run = startHorovodrun([
    '-np',
    '2',
    'sh',
    '-c',
    wrapper,
    process.execPath,
    fixture('control-block.ts'),
  ]);
  assert.equal((await run.ended).exitCode, 3, run.stderr);
  assert.match(run.stderr, /First failure:\n {2}rank 1 on localhost/);
  assert.match(run.stderr, /rank 0 on localhost \(pid \d+\) exited with code 1, because it lost rank 1/);
});

test('a rank that exits before all have connected is reported to those that wait for it', async () => {
  const result = await spawnRanks(3, fixture('control-block.ts'), {
    args: ['never'],
  });
  assert.equal(result.exitCode, 7, result.stderr);
  assert.match(result.stderr, /First failure:\n {2}rank 1 on localhost \(pid \d+\) exited with code 7/);
});
