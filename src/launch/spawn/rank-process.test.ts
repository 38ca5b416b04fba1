// A rank that cannot be started is one that has ended: nothing is thrown where others are about to be started.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RankProcess } from './rank-process.ts';

for (const { what, file, env, end, code } of [
  { what: 'is not there', file: '/nowhere/program', env: {}, end: 127, code: 'ENOENT' },
  {
    what: 'gets more environment than the system allows',
    file: process.execPath,
    env: { LARGE: 'x'.repeat(4 * 2 ** 20) },
    end: 126,
    code: 'E2BIG',
  },
]) {
  test(`a program that ${what}`, async () => {
    const rank = new RankProcess(0, { file, args: ['--version'] }, env);
    assert.equal(rank.pid, undefined);
    assert.deepEqual(await rank.ended, { code: end });
    assert.equal(rank.spawnError?.code, code);
    assert.equal(rank.signalGroup('SIGTERM'), false);
    for await (const piece of rank.stdout) assert.fail(String(piece));
  });
}
