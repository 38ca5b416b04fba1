// What ranks write to stderr, as the settings want it: one job for all of them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { fixturePath } from '../support/repository.ts';

test('as JSON every line of the log is an object of its rank; NODE_DEBUG chooses topics', async () => {
  const job = await spawnRanks(2, fixturePath('core/log.ts'), {
    env: { HOROVOD_LOG_FORMAT: 'json', NODE_DEBUG: 'horovod:rendezvous,horovod:engine' },
    timeoutMs: 60_000,
  });
  assert.equal(job.exitCode, 0, job.stderr);
  for (const [rank, { stderr }] of job.ranks.entries()) {
    const lines = stderr
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    const debug = lines.filter(({ level }) => level === 'debug');
    assert.deepEqual([...new Set(debug.map(({ topic }) => topic))], ['rendezvous', 'engine']);
    for (const line of lines) {
      assert.equal(line['rank'], rank);
      assert.equal(new Date(String(line['time'])).toISOString(), line['time']);
    }
    assert(
      debug.some(({ message }) => /allreduce "differs" ends with ERR_HVD_MISMATCH/.test(String(message))),
    );
  }
});
