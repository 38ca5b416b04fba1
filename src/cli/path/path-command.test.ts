// `horovod path`: files that are there, and what it says about others.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { run } from '../main.ts';

async function outputOf(...argv: string[]): Promise<{ code: number; out: string; error: string }> {
  let out = '';
  let error = '';
  const output = {
    out: (text: string) => {
      out += text;
    },
    error: (text: string) => {
      error += text;
    },
  };
  return { code: await run(['path', ...argv], output), out, error };
}

test('every file that its help names is there', async () => {
  const { code, out } = await outputOf('--help');
  assert.equal(code, 0);
  const files = [...out.matchAll(/^ {2}(\S+\.py)$/gm)].map(([, file]) => file as string);
  assert.ok(files.includes('spark/horovod_spark.py') && files.includes('spark/compute_worker.py'), out);
  for (const file of files) {
    const found = await outputOf(file);
    assert.equal(found.code, 0);
    assert.ok(existsSync(found.out.trim()), found.out);
  }
});

test('anything else is an error that names the files', async () => {
  for (const argv of [['../package.json'], [], ['spark/horovod_spark.py', 'more']]) {
    const { code, out, error } = await outputOf(...argv);
    assert.equal(code, 2);
    assert.equal(out, '');
    assert.match(error, argv.length === 2 ? /unexpected more/ : /spark\/horovod_spark\.py/);
  }
});
