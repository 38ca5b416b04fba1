// A compute worker that freezes: after ten seconds of silence its batches are made elsewhere. When it goes on later, what it still
// sends counts for nothing.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { startHorovodrun } from '../../src/testing/spawn-ranks.ts';
import { repository, sourcePath } from '../support/repository.ts';

const command = join(repository, 'dist/cli/main.js');
const trainer = sourcePath('data/service-trainer.ts');
/** horovodrun would do that. */
const loader = pathToFileURL(join(repository, 'dist/launch/typescript/register.js'));
const env = { HOROVOD_DATA_THREADS: '1' };

test('a compute worker that is stopped and goes on costs no sample and repeats none', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'horovod-data-service-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'compute.json');
  const workers = ['0', '1'].map((rank) => {
    const words = [command, 'compute-worker', '--rank', rank, '--size', '2', path];
    const child = spawn(process.execPath, words, {
      cwd: repository,
      env: { ...process.env, ...env, NODE_OPTIONS: `--import ${loader}` },
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    t.after(() => child.kill('SIGKILL'));
    return child;
  });
  const options = { count: 400, epochs: 3, pauseAfter: 3, ends: true };
  const training = startHorovodrun(['-np', '1', '--', trainer, path, JSON.stringify(options)], {
    env,
    cwd: repository,
  });
  t.after(() => training.child.kill('SIGKILL'));
  const [, paused] = await training.waitForOutput(/paused (\d+)/);
  const frozen = workers[1];
  frozen?.kill('SIGSTOP');
  process.kill(Number(paused), 'SIGUSR1');
  await training.waitForOutput(/epoch \{"epoch":0/);
  frozen?.kill('SIGCONT');
  const { exitCode } = await training.ended;
  assert.equal(exitCode, 0, `${training.stdout}\n${training.stderr}`);
  const epochs = [...training.stdout.matchAll(/epoch (\{.*\})$/gm)].map(
    (match) => JSON.parse(match[1] as string) as { ids: number[] },
  );
  assert.equal(epochs.length, 3);
  for (const { ids } of epochs)
    assert.deepEqual(
      ids.sort((a, b) => a - b),
      Array.from({ length: 400 }, (_, id) => id),
    );
});
