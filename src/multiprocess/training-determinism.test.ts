// Trained weights have the same bits in every run, and however the gradients travelled: overlapped or not, in buckets of any
// size, in groups, with sharded optimizer state, on any plane.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { planeVariants, trainingFixture } from '../testing/case-jobs.ts';
import { spawnRanks } from '../testing/spawn-ranks.ts';

describe('the bits of trained weights, 3 ranks', () => {
  const [native, portable] = planeVariants() as [
    ReturnType<typeof planeVariants>[number],
    ReturnType<typeof planeVariants>[number],
  ];
  const tcp = { plane: 'tcp', env: { ...native.env, HOROVOD_PLANE: 'tcp' } };
  const never = { HOROVOD_OVERLAP: 'never' };
  const always = { HOROVOD_OVERLAP: 'always', HOROVOD_BUCKET_BYTES: '512' };
  // Each plane twice: what is the same in all of them is the same in two runs.
  const ways: { title: string; plane: string; env: NodeJS.ProcessEnv }[] = [
    { title: 'shm, after backpropagation', plane: 'shm', env: { ...native.env, ...never } },
    { title: 'shm, overlapped', plane: 'shm', env: { ...native.env, ...always } },
    {
      title: 'shm, overlapped, each gradient alone',
      plane: 'shm',
      env: { ...native.env, ...always, HOROVOD_BUCKET_BYTES: '0' },
    },
    { title: 'tcp, after backpropagation', ...tcp, env: { ...tcp.env, ...never } },
    { title: 'tcp, overlapped', ...tcp, env: { ...tcp.env, ...always } },
    { title: 'portable', plane: 'portable', env: { ...portable.env, ...never } },
    // It has no threads: "always" changes nothing there.
    { title: 'portable, a second run', plane: 'portable', env: { ...portable.env, ...always } },
  ];
  const skip = native.skip || portable.skip;
  test('are the same in every way', { skip }, async () => {
    const digests: string[] = [];
    for (const { title, plane, env } of ways) {
      const job = await spawnRanks(3, trainingFixture('digest.mjs'), {
        env: { ...env, HOROVOD_TIMEOUT_SECONDS: '60' },
        timeoutMs: 60_000,
      });
      assert.equal(job.exitCode, 0, `${title}: ${job.stderr}`);
      for (const { stdout } of job.ranks) {
        const line = JSON.parse(stdout) as { plane: string; digests: string[] };
        assert.equal(line.plane, plane, title);
        digests.push(...line.digests);
      }
    }
    assert.equal(digests.length, 3 * 3 * ways.length);
    assert.match(digests[0] as string, /^[0-9a-f]{64}$/);
    assert.deepEqual(
      digests,
      digests.map(() => digests[0]),
    );
  });
});
