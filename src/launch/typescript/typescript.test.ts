// TypeScript without a build step.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { repository, sourcePath } from '../../../test/support/repository.ts';
import { spawnRanks } from '../../testing/spawn-ranks.ts';
import { loadTypeScript, typeScriptSpecifier } from './hooks.ts';

const typed = sourcePath('launch/typed.ts');

function project(t: { after(fn: () => void): void }, files: Record<string, string>): string {
  const directory = mkdtempSync(join(tmpdir(), 'hvd-typescript-'));
  t.after(() => rmSync(directory, { recursive: true }));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, name)), { recursive: true });
    writeFileSync(join(directory, name), text);
  }
  return directory;
}

test('horovodrun runs a TypeScript file as it is', async () => {
  const result = await spawnRanks(2, typed);
  assert.equal(result.exitCode, 0, result.stderr);
  for (const [rank, { stdout }] of result.ranks.entries()) {
    assert.equal(stdout, `HELLO FROM RANK ${rank}\ntop-level await works\n`);
  }
  assert.equal(result.stderr, '');
});

test('stack traces show the lines that were written', async () => {
  const result = await spawnRanks(1, typed, { args: ['--fail'] });
  assert.equal(result.exitCode, 1);
  assert.match(result.stderr, /typed\.ts:24:\d+/);
  assert.match(result.stderr, /from the last line but one/);
});

test('node --import horovod/typescript runs it without horovodrun', () => {
  const { stdout, stderr } = spawnSync(
    process.execPath,
    ['--import', 'horovod/typescript', typed, '--fail'],
    {
      cwd: repository,
      encoding: 'utf8',
    },
  );
  assert.match(stdout, /^HELLO FROM RANK 0\n/);
  assert.match(stderr, /typed\.ts:24:\d+/);
});

test('a syntax error points at file and line', async (t) => {
  const directory = project(t, { 'broken.ts': 'const fine: number = 1;\nconst broken: = 2;\n' });
  const result = await spawnRanks(1, 'broken.ts', { cwd: directory });
  assert.equal(result.exitCode, 1);
  assert.match(result.stderr, /broken\.ts:2:15/);
  assert.match(result.stderr, /const broken: = 2;/);
});

test('relative names, modules of both kinds and package types are understood', async (t) => {
  const directory = project(t, {
    'package.json': '{ "type": "commonjs" }',
    'old.ts':
      'const path = require("node:path");\nconst name: string = path.basename(__filename);\nconsole.log(name);',
    'entry.mts': 'import other from "./other.cjs";\nconsole.log(other.value as number);',
    'other.cts': 'const value: number = 42;\nmodule.exports = { value };',
    'new/package.json': '{ "type": "module" }',
    'new/entry.ts': 'console.log(typeof import.meta.url satisfies string);',
  });
  for (const [script, expected] of [
    ['old.ts', 'old.ts\n'],
    ['./entry.mts', '42\n'],
    ['new/entry.ts', 'string\n'],
  ] as const) {
    const result = await spawnRanks(1, script, { cwd: directory });
    assert.equal(result.ranks[0]?.stdout, expected, result.stderr);
  }
});

test('without a package type, the kind of module is seen from the code', (t) => {
  const directory = project(t, {
    'package.json': '{}',
    'esm.ts': 'export const a: number = 1;',
    'cjs.ts': 'const fs = require("node:fs");',
    'await.ts': 'await Promise.resolve<number>(1);',
  });
  const formatOf = (name: string) => loadTypeScript(pathToFileURL(join(directory, name)).href)?.format;
  assert.equal(formatOf('esm.ts'), 'module');
  assert.equal(formatOf('cjs.ts'), 'commonjs');
  assert.equal(formatOf('await.ts'), 'module');
  assert.equal(loadTypeScript('file:///a/b.js'), undefined);
  assert.equal(loadTypeScript('node:fs'), undefined);
});

test('./x.js means ./x.ts only where that exists', (t) => {
  const directory = project(t, { 'a.ts': '', 'b.mts': '' });
  const parent = pathToFileURL(join(directory, 'main.ts')).href;
  assert.equal(typeScriptSpecifier('./a.js', parent), './a.ts');
  assert.equal(typeScriptSpecifier('./b.mjs', parent), './b.mts');
  assert.equal(typeScriptSpecifier('./c.js', parent), undefined);
  assert.equal(typeScriptSpecifier('a.js', parent), undefined);
  assert.equal(typeScriptSpecifier('./a.js', undefined), undefined);
});
