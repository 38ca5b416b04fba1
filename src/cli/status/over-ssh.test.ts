import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { keepOutput } from '../../../test/support/command-output.ts';
import { remoteCall, runOverSsh } from './over-ssh.ts';

/** A remote shell that runs the command here, and keeps the name of the host. */
function fakeShell(t: TestContext, body: string): { environment: NodeJS.ProcessEnv; folder: string } {
  const folder = mkdtempSync(join(tmpdir(), 'horovod-ssh-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const program = join(folder, 'shell');
  writeFileSync(program, `#!/bin/sh\n${body}\n`);
  chmodSync(program, 0o755);
  return { environment: { PATH: process.env['PATH'], OMPI_MCA_plm_rsh_agent: program }, folder };
}

async function call(t: TestContext, body: string, argv: readonly string[]) {
  const { environment } = fakeShell(t, body);
  const output = keepOutput();
  const exitCode = await runOverSsh({ host: 'server1', argv, environment }, output);
  return { exitCode, ...output.said };
}

describe('horovod status --host', () => {
  test('gives ssh a host that is no option, and asks nobody for a password', () => {
    const { file, args } = remoteCall({ host: 'server1', argv: ['status'], port: 2222, environment: {} });
    assert.equal(file, 'ssh');
    assert.deepEqual(args.slice(-3, -1), ['--', 'server1']);
    assert.deepEqual([args.includes('BatchMode=yes'), args[args.indexOf('-p') + 1]], [true, '2222']);
  });

  test('hands over arguments as they are, whatever is in them', () => {
    const odd = ["it's", '$(touch /tmp/x)', '`a`', 'two words', '"', '\\', '*'];
    const { args } = remoteCall({ host: 'server1', argv: odd, environment: {} });
    const command = args.at(-1) as string;
    // The same words again, from the shell that ssh would have given the command to.
    const echo = command.replace(/^exec \/bin\/sh -c /, "printf '%s\\n' ");
    const { stdout } = spawnSync('/bin/sh', ['-c', echo], { encoding: 'utf8' });
    assert.deepEqual(stdout.split('\n').slice(-1 - odd.length, -1), odd);
  });

  test('runs the same command there and passes on what it says, and its exit code', async (t) => {
    const here = await call(t, 'shift; exec /bin/sh -c "$1"', [
      'status',
      '--json',
      '--once',
      '--job',
      'nosuchjob',
    ]);
    assert.equal(here.exitCode, 1, here.error);
    assert.deepEqual((JSON.parse(here.out) as { jobs: unknown }).jobs, []);
    const version = await call(t, 'shift; exec /bin/sh -c "$1"', ['--version']);
    assert.match(version.out, /^\d+\.\d+\.\d+\n$/);
    assert.equal(version.exitCode, 0);
  });

  test('says what to do when the host cannot be reached', async (t) => {
    const { exitCode, error } = await call(t, 'echo "Permission denied (publickey)." >&2; exit 255', [
      'status',
    ]);
    assert.equal(exitCode, 1);
    assert.match(error, /Permission denied[\s\S]*could not connect to server1[\s\S]*ssh server1 true/);
  });

  test('says so when horovod is not installed on the host', async (t) => {
    const { exitCode, error } = await call(t, 'echo "horovod was not found at a or b" >&2; exit 3', [
      'status',
    ]);
    assert.equal(exitCode, 1);
    assert.match(error, /server1 needs Node 20.19 or later and this package at the same path/);
  });

  test('says so when there is no ssh', async () => {
    const said: string[] = [];
    const exitCode = await runOverSsh(
      { host: 'server1', argv: ['status'], environment: { PATH: '/nowhere' } },
      { out: () => undefined, error: (text) => said.push(text) },
    );
    assert.deepEqual([exitCode, /cannot run ssh: .*ENOENT/.test(said.join(''))], [1, true]);
  });
});
