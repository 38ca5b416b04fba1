// Notebooks as the command of jobs.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { notebookText } from '../../../test/support/notebook-file.ts';
import { repository } from '../../../test/support/repository.ts';
import { type SpawnRanksResult, spawnRanks } from '../../testing/spawn-ranks.ts';

const folder = mkdtempSync(join(tmpdir(), 'hvd-notebooks-'));
before(() => {
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(repository, join(folder, 'node_modules/horovod'));
  writeFileSync(join(folder, 'greeting.ts'), "export const greeting: string = 'sum';");
  const cells = [
    "import * as hvd from 'horovod';\nimport { greeting } from './greeting.js';",
    { tags: ['parameters'], source: 'const by = 1;\nlet fails: boolean = false;' },
    { tags: ['launcher'], source: 'this would be the launcher(' },
    "import * as hvd from 'horovod';\nawait hvd.init();",
    {
      source:
        "!npm install x\nconst [s] = await hvd.allreduce(new Float32Array([by + hvd.rank()]), {\n  op: hvd.Sum, name: 'grad' });",
      count: 12,
    },
    "console.log(greeting + ' ' + s, hvd.flightRecord().at(-1)?.callSite);",
    "function fail(n: number): void {\n  /* 😀 */ if (n > 0) throw new RangeError('in a cell');\n}\nif (fails) fail(1);",
    'await hvd.shutdown();',
  ];
  writeFileSync(join(folder, 'train.ipynb'), notebookText(cells));
  writeFileSync(
    join(folder, 'python.ipynb'),
    notebookText([], { metadata: { kernelspec: { language: 'python' } } }),
  );
});
after(() => rmSync(folder, { recursive: true }));

const skipped =
  'train.ipynb: these do not run here: cell 3 (tag launcher); cell 5 (In [12]), line 1 (!npm install x).\n';

const place = (sum: number) => `sum ${sum} ${join(folder, 'train.ipynb')} cell 5:2\n`;

test('horovodrun runs the cells of a notebook, and says once what it leaves out', async () => {
  const result = await spawnRanks(2, 'train.ipynb', { cwd: folder });
  assert.equal(result.exitCode, 0, result.stderr);
  assert.equal(result.stderr, `horovodrun: ${skipped}`);
  assert.deepEqual(
    result.ranks.map(({ stdout }) => stdout),
    [place(3), place(3)],
  );
});

describe('an error in a cell', () => {
  let result: SpawnRanksResult;
  before(async () => {
    const flags = ['--notebook-parameter', 'fails=true', '--notebook-parameter', 'by=10'];
    result = await spawnRanks(2, 'train.ipynb', { cwd: folder, flags });
  });

  test('has the place in the cell, with its source', () => {
    assert.equal(result.exitCode, 1);
    assert.match(result.stderr, /train\.ipynb cell 7:2\n.*\/\* 😀 \*\/ if \(n > 0\) throw new RangeError/);
    assert.match(result.stderr, /at fail \(.*train\.ipynb cell 7:2:29\)/);
    assert.match(result.stderr, /at .*train\.ipynb cell 7:4:12/);
  });

  test('is named in the report', () => {
    assert.match(result.stderr, /The job has failed[\s\S]*RangeError: in a cell\n.*train\.ipynb cell 7:2:29/);
  });

  test('came after the parameters of the command line', () => {
    assert.equal(result.ranks[1]?.stdout, place(21));
  });
});

describe('what cannot run is said once, and no rank starts', () => {
  const table: readonly [
    name: string,
    script: string,
    flags: readonly string[],
    code: number,
    stderr: RegExp,
  ][] = [
    [
      'a notebook of Python',
      'python.ipynb',
      [],
      1,
      /^horovodrun: python\.ipynb is a notebook of python; .*\n$/,
    ],
    [
      'an unknown parameter',
      'train.ipynb',
      ['--notebook-parameter', 'fail=1'],
      1,
      /^horovodrun: train\.ipynb has no parameter fail\. Did you mean fails\? .*\n$/,
    ],
    [
      'a parameter without a value',
      'train.ipynb',
      ['--notebook-parameter', 'by'],
      2,
      /--notebook-parameter is "by"; expected name=value/,
    ],
    [
      'parameters of a script',
      './greeting.ts',
      ['--notebook-parameter', 'by=1'],
      2,
      /--notebook-parameter needs a notebook/,
    ],
  ];
  for (const [name, script, flags, code, stderr] of table) {
    test(name, async () => {
      const result = await spawnRanks(2, script, { cwd: folder, flags });
      assert.equal(result.exitCode, code);
      assert.match(result.stderr, stderr);
    });
  }
});

test('node --import horovod/typescript runs it without horovodrun', () => {
  const run = (parameters: string) =>
    spawnSync(process.execPath, ['--import', 'horovod/typescript', 'train.ipynb'], {
      cwd: folder,
      encoding: 'utf8',
      env: { ...process.env, HOROVOD_NOTEBOOK_PARAMETERS: parameters },
    });
  const { stdout, stderr } = run('by=4\nfails=false');
  assert.deepEqual([stdout, stderr], [place(4), skipped]);
  const wrong = run('buy=4').stderr;
  assert.match(wrong, /ERR_HVD_NOTEBOOK: train\.ipynb has no parameter buy\. Did you mean by\?/);
  assert.doesNotMatch(wrong, /\n +at .*notebook/);
});
