import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { keepOutput } from '../../../test/support/command-output.ts';
import { packageRoot } from '../../settings/package.ts';
import { run } from '../main.ts';

async function build(...argv: string[]): Promise<{ exitCode: number; out: string; error: string }> {
  const output = keepOutput();
  const exitCode = await run(['build', ...argv], output);
  return { exitCode, ...output.said };
}

describe('horovod build', () => {
  test('rejects flags that exclude each other', async () => {
    for (const argv of [
      ['--mpi', '--without-mpi'],
      ['--gloo', '--without-gloo'],
      ['--global', '--out', 'x'],
      ['mpi'],
    ]) {
      const { exitCode, error } = await build(...argv);
      assert.equal(exitCode, 2, argv.join(' '));
      assert.match(error, /horovod build --help/);
    }
  });

  // The command passes its environment on, so this is done in a process of its own.
  test('without a compiler fails, names what to install, and leaves no addon', () => {
    const folder = mkdtempSync(join(tmpdir(), 'hvd-build-'));
    try {
      const command = [join(packageRoot(), 'bin/horovod.js'), 'build', '--out', folder];
      const { status, stderr } = spawnSync(process.execPath, command, {
        env: { ...process.env, CXX: '/nonexistent/compiler' },
        encoding: 'utf8',
        timeout: 60_000,
      });
      assert.equal(status, 1);
      if (process.platform === 'linux') assert.match(stderr, /no C\+\+ compiler: .*apt-get install g\+\+/);
      assert.ok(!existsSync(folder) || readdirSync(folder).every((name) => !name.endsWith('.node')));
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
