// The progress of a whole job, as its user sees it: on a pseudo terminal (util-linux `script`), and in CI. Rank 1 is slow.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fixturePath, repository } from '../support/repository.ts';

const batches = 300;
const job = [
  process.execPath,
  join(repository, 'bin/horovodrun.js'),
  '-np',
  '2',
  '--',
  fixturePath('keras/slow-rank.ts'),
  String(batches),
];
const lastLine = /^\[0\]<stdout>:Epoch 1\/1 {2}\d+:\d\d {2}[\d,.]+ samples\/s {2}loss [\d.e-]+$/;

describe('the progress of a job', () => {
  const skip =
    spawnSync('script', ['--version']).status === 0 ? false : 'the command script is not installed';

  /** The output on a terminal of 120 columns. */
  function onTerminal(env: NodeJS.ProcessEnv): string {
    const command = `stty cols 120; ${job.map((word) => `'${word}'`).join(' ')}`;
    const { stdout, status } = spawnSync('script', ['-qec', command, '/dev/null'], {
      encoding: 'utf8',
      env: { ...process.env, TERM: 'xterm', CI: '', ...env },
    });
    assert.equal(status, 0, stdout);
    return stdout.replaceAll('\r\n', '\n');
  }

  test('on a terminal it is one line in place, with the time left and who is late', { skip }, () => {
    const text = onTerminal({});
    const shown = text.split(/[\r\n]/).filter((line) => line.includes('  step '));
    assert.ok(shown.length > 2, text);
    const whole =
      /Epoch 1\/1 {2}\[=*>? *\] {2}step \d+ of 300 {2}loss [\d.e-]+ {2}[\d,.]+ samples\/s {2}\d+:\d\d left( {2}rank 1 is \d+ ms late)?$/;
    for (const line of shown) assert.match(line, whole);
    assert.ok(
      shown.some((line) => line.includes('rank 1 is ')),
      text,
    );
    // What stays is the line of the epoch.
    const kept = text
      .split('\n')
      .map((line) => line.slice(line.lastIndexOf('\r') + 1).replace(/\p{Cc}\[K/gu, ''));
    assert.deepEqual(
      kept.filter((line) => line.includes('  step ')),
      [],
    );
    assert.equal(kept.filter((line) => lastLine.test(line)).length, 1, JSON.stringify(kept));
  });

  test('in CI, also on a terminal, lines stay, and there are few', { skip }, () => {
    const text = onTerminal({ CI: 'true' });
    assert.doesNotMatch(text, /\p{Cc}(?<!\n)/u, 'nothing moves the cursor');
    const lines = text.split('\n').filter((line) => line.includes('Epoch'));
    assert.match(lines.at(-1) ?? '', lastLine);
    // Twice as long without a line each time: 5, 10, 20 … seconds.
    assert.ok(lines.length < 10, text);
  });
});
