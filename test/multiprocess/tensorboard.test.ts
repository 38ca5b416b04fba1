// horovodrun --tensorboard: a program that behaves like TensorBoard is started beside the job, and ends with it in every way.

import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { startHorovodrun } from '../../src/testing/spawn-ranks.ts';
import { assertEnded } from '../support/fault-job.ts';

const patienceMs = 60_000;

/** Writes its pid and arguments to a file, then does what `behaviour` says. */
function fakeTensorBoard(t: TestContext, behaviour: string) {
  const folder = mkdtempSync(join(tmpdir(), 'hvd-tensorboard-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const [program, started, script] = ['tensorboard', 'started', 'rank.mjs'].map((name) => join(folder, name));
  writeFileSync(
    program as string,
    `#!${process.execPath}
     const fs = require('node:fs');
     fs.writeFileSync('${started}.new', JSON.stringify([process.pid, ...process.argv.slice(2)]));
     fs.renameSync('${started}.new', '${started}');
     ${behaviour}`,
  );
  chmodSync(program as string, 0o755);
  // A rank that lasts until the program has started, and longer if asked.
  writeFileSync(
    script as string,
    `import { existsSync } from 'node:fs';
     console.log(process.env.HOROVOD_TENSORBOARD_DIR);
     const timer = setInterval(() => { if (process.argv[2] !== 'stay' && existsSync('${started}')) setTimeout(() => clearInterval(timer), 500); }, 20);`,
  );
  const words = async (): Promise<string[]> => {
    const deadline = Date.now() + patienceMs;
    while (!existsSync(started as string)) {
      assert.ok(Date.now() < deadline, 'the program was not started');
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return JSON.parse(readFileSync(started as string, 'utf8')) as string[];
  };
  const run = (flags: readonly string[], args: readonly string[] = [], env: NodeJS.ProcessEnv = {}) =>
    startHorovodrun(['-np', '1', ...flags, '--', script as string, ...args], {
      env: { HOROVOD_TENSORBOARD: program as string, ...env },
    });
  return { folder, run, words };
}

const serves = `console.error('TensorBoard 2.21.0 at http://127.0.0.1:1234/ (Press CTRL+C to quit)'); setInterval(() => {}, 1000);`;

describe('horovodrun --tensorboard', () => {
  test('prints its URL, gives ranks and TensorBoard one folder, and ends it with the job', async (t) => {
    const { folder, run, words } = fakeTensorBoard(t, serves);
    const logs = join(folder, 'logs');
    const job = run(['--tensorboard', '--tensorboard-logdir', logs]);
    const { exitCode } = await job.ended;
    assert.equal(exitCode, 0, job.stderr);
    const [pid, ...args] = await words();
    assert.deepEqual(args, ['--logdir', logs, '--host', '127.0.0.1', '--port', '0']);
    assert.match(job.stderr, new RegExp(`TensorBoard shows ${logs} at http://127.0.0.1:1234/`));
    assert.ok(job.stdout.includes(logs), job.stdout);
    await assertEnded(Number(pid));
  });

  test('keeps it until Ctrl-C with --tensorboard-keep, and has the exit code of the job', async (t) => {
    const { run, words } = fakeTensorBoard(t, serves);
    const job = run(['--tensorboard', '--tensorboard-keep']);
    const kept = /The job has ended; TensorBoard stays at http:\/\/127\.0\.0\.1:1234\/ until Ctrl-C/;
    const deadline = Date.now() + patienceMs;
    while (!kept.test(job.stderr)) {
      assert.ok(Date.now() < deadline, job.stderr);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    const [pid] = await words();
    process.kill(Number(pid), 0);
    job.child.kill('SIGINT');
    assert.equal((await job.ended).exitCode, 0, job.stderr);
    await assertEnded(Number(pid));
  });

  test('does not wait for one that has not started, and --tensorboard-keep alone is a usage error', async (t) => {
    const { run } = fakeTensorBoard(t, `process.exit(1);`);
    const job = run(['--tensorboard', '--tensorboard-keep']);
    assert.equal((await job.ended).exitCode, 0, job.stderr);
    const alone = run(['--tensorboard-keep']);
    assert.equal((await alone.ended).exitCode, 2);
    assert.match(alone.stderr, /--tensorboard-keep needs --tensorboard\./);
  });

  test('says the path through JupyterHub, and that it cannot read the folder of a server', async (t) => {
    const { run } = fakeTensorBoard(
      t,
      `console.error('ValueError: No recognized filesystem for prefix hdfs'); ${serves}`,
    );
    const job = run(['--tensorboard', '--tensorboard-logdir', 'hdfs://nn.invalid/logs'], [], {
      JUPYTERHUB_SERVICE_PREFIX: '/user/ada/',
    });
    assert.equal((await job.ended).exitCode, 0);
    assert.match(
      job.stderr,
      /at http:\/\/127\.0\.0\.1:1234\/, through JupyterHub at \/user\/ada\/proxy\/1234\/\n/,
    );
    assert.match(
      job.stderr,
      /TensorBoard cannot read hdfs:\/\/nn\.invalid\/logs: it needs the Python package fsspec/,
    );
  });

  test('ends it when the launcher is killed', async (t) => {
    const { run, words } = fakeTensorBoard(t, serves);
    const job = run(['--tensorboard=6007'], ['stay']);
    const [pid, ...args] = await words();
    assert.equal(args.at(-1), '6007');
    job.child.kill('SIGKILL');
    await job.ended;
    await assertEnded(Number(pid));
  });

  test('says that the port is taken, and the job goes on', async (t) => {
    const { run } = fakeTensorBoard(
      t,
      `console.error('TensorBoard could not bind to port 6006, it was already in use'); process.exit(1);`,
    );
    const job = run(['--tensorboard=6006']);
    assert.equal((await job.ended).exitCode, 0);
    assert.match(job.stderr, /cannot listen on port 6006: it is in use.*Training goes on/);
  });

  test('says how to install it where it is missing, and the job goes on', async () => {
    const job = startHorovodrun(['-np', '1', '--tensorboard', '--', process.execPath, '-e', '0'], {
      env: { HOROVOD_TENSORBOARD: '/nonexistent/tensorboard' },
    });
    assert.equal((await job.ended).exitCode, 0);
    assert.match(job.stderr, /TensorBoard is not installed.*pip install tensorboard.*Training goes on/);
  });

  test('takes no word of the command for its port', async () => {
    const job = startHorovodrun(['-np', '1', '--tensorboard=x', 'true'], {});
    assert.equal((await job.ended).exitCode, 2);
    assert.match(job.stderr, /--tensorboard is "x"; expected a port/);
  });
});
