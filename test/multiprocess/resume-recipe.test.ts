// The recipe for resuming of docs/guide/keras.md, as it is printed there: training that was interrupted and resumed ends with the
// same weights as training that was not, to the bit.

import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { repository } from '../support/repository.ts';

test('interrupted and resumed training equals uninterrupted training, to the bit', async (t) => {
  const page = readFileSync(join(repository, 'docs/guide/keras.md'), 'utf8');
  const recipe = /```ts\n(\/\/ resume\.ts\n.*?)```/s.exec(page)?.[1];
  assert.ok(recipe !== undefined, 'the page has no program that begins with // resume.ts');
  // Inside of the repository, where the packages that it imports are found.
  const folder = mkdtempSync(join(repository, '.dist-test/resume-'));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'resume.ts'), recipe);
  const train = async (epochs: number) => {
    const { exitCode, stdout, stderr } = await spawnRanks(2, join(folder, 'resume.ts'), {
      cwd: folder,
      args: [String(epochs)],
      timeoutMs: 240_000,
    });
    assert.equal(exitCode, 0, stdout + stderr);
    assert.doesNotMatch(stderr, /warning/);
    return stdout;
  };
  const checkpoint = (name: string) => join(folder, name, 'epoch-4');
  const weightsIn = (name: string) => {
    const files = ['weights.bin', 'weights.alternate.bin'].flatMap((file) => {
      try {
        return [readFileSync(join(checkpoint(name), file))];
      } catch {
        return [];
      }
    });
    assert.equal(files.length, 1, checkpoint(name));
    return files[0] as Buffer;
  };
  await train(4);
  cpSync(join(folder, 'checkpoints'), join(folder, 'uninterrupted'), { recursive: true });
  // As if the job had been killed in its third epoch.
  for (const epoch of [3, 4]) rmSync(join(folder, `checkpoints/epoch-${epoch}`), { recursive: true });
  const output = await train(4);
  assert.match(output, /Epoch 3\/3/);
  assert.doesNotMatch(output, /Epoch 2\//);
  assert.deepEqual(weightsIn('checkpoints'), weightsIn('uninterrupted'));
});
