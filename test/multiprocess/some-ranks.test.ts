import assert from 'node:assert/strict';
import { test } from 'node:test';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { fixturePath } from '../support/repository.ts';

test('some ranks of a job work together, numbered in the order given, whatever the others do', async () => {
  const job = await spawnRanks(3, fixturePath('core/some-ranks.ts'), { timeoutMs: 60_000 });
  assert.equal(job.exitCode, 0, job.stderr);
  assert.match(job.ranks[2]?.stdout ?? '', /rank 0 of 2: 2 0, 0/);
  assert.match(job.ranks[0]?.stdout ?? '', /rank 1 of 2: 2 0, 0/);
});

test('ranks that have worked together come together with all others afterwards', async () => {
  const job = await spawnRanks(3, fixturePath('core/some-then-all.ts'), { timeoutMs: 60_000 });
  assert.equal(job.exitCode, 0, job.stderr);
  for (const { stdout } of job.ranks) assert.match(stdout, /sum 6 of 3/);
});
