import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { lastSavedEpoch } from './last-saved-epoch.ts';

test('the newest epoch that has a model is found, whatever else lies there', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'horovod-epochs-'));
  t.after(() => rmSync(folder, { recursive: true }));
  assert.equal(await lastSavedEpoch(join(folder, 'nothing/epoch-{epoch}')), 0);
  for (const path of ['epoch-2', 'epoch-10', 'epoch-x', 'other-99', 'epoch-77x', '3/model', '12/model']) {
    const file = join(folder, path, 'model.json');
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, '{}');
  }
  mkdirSync(join(folder, 'epoch-11')); // its first save was interrupted
  assert.equal(await lastSavedEpoch(join(folder, 'epoch-{epoch}')), 10);
  assert.equal(await lastSavedEpoch(`file://${folder}/epoch-{epoch}`), 10);
  assert.equal(await lastSavedEpoch(join(folder, '{epoch}/model')), 12);
});

test('a path without {epoch} is rejected', async () => {
  await assert.rejects(lastSavedEpoch('checkpoints'), {
    code: 'ERR_HVD_INVALID_ARGUMENT',
    message: /\{epoch\}/,
  });
});
