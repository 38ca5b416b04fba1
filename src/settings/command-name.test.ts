import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { typedCommand } from './command-name.ts';

test('hints name npx, unless a shell finds the command by itself', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'hvd-command-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const local = join(folder, 'node_modules/.bin');
  const global = join(folder, 'bin');
  for (const place of [local, global]) {
    mkdirSync(place, { recursive: true });
    writeFileSync(join(place, 'horovod'), '', { mode: 0o755 });
  }
  writeFileSync(join(global, 'horovodrun'), '', { mode: 0o644 });
  // As npm and npx set it for what they start.
  assert.equal(typedCommand('horovod', { PATH: `${local}:/nowhere` }), 'npx horovod');
  assert.equal(typedCommand('horovod', { PATH: `${local}:${global}` }), 'horovod');
  assert.equal(typedCommand('horovodrun', { PATH: global }), 'npx horovodrun');
  assert.equal(typedCommand('horovod', {}), 'npx horovod');
});
