// Ranks of two builds of the package in one job: a copy of it in a folder of its own calls itself another version.

import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { layoutVersion } from '../../src/control/layout-version.ts';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { repository } from '../support/repository.ts';

test('ranks of two versions, on one host and on two, fail in init() with both versions and both hosts', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'hvd-versions-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const manifest = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as { version: string };
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ ...manifest, version: '99.0.0' }));
  cpSync(join(repository, 'dist'), join(folder, 'dist'), { recursive: true });
  for (const part of ['native', 'node_modules']) symlinkSync(join(repository, part), join(folder, part));
  const faces = [repository, folder].map((root) => pathToFileURL(join(root, 'dist/index.js')).href);
  const script = join(folder, 'train.mjs');
  writeFileSync(
    script,
    `const hvd = await import(${JSON.stringify(faces)}[process.env.HOROVOD_RANK]);
    await hvd.init().then(() => console.log('started'), ({ code, message }) => console.log(code, message));`,
  );
  const layout = `memory layout ${layoutVersion}`;
  for (const hosts of ['localhost:2', 'localhost:1,127.0.0.1:1']) {
    const { ranks, stdout, stderr } = await spawnRanks(2, script, { flags: ['-H', hosts] });
    const [, second = 'localhost'] = /,(.*):/.exec(hosts) ?? [];
    const text =
      `rank 0 on localhost runs horovod ${manifest.version} (${layout}), but rank 1 on ${second} runs horovod 99.0.0 ` +
      `(${layout}).`;
    for (const rank of ranks) {
      assert.match(rank.stdout, /^ERR_HVD_VERSION /, stdout + stderr);
      assert.ok(rank.stdout.includes(text), `${rank.stdout}\nexpected: ${text}`);
    }
  }
});
