// Trained weights have the same bits however the gradients travelled: overlapped or not, in buckets of any size, on
// either plane.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { planeVariants, trainingFixture } from '../testing/case-jobs.ts';
import { spawnRanks } from '../testing/spawn-ranks.ts';

describe('the bits of trained weights, 3 ranks', () => {
  const [native, portable] = planeVariants() as [
    ReturnType<typeof planeVariants>[number],
    ReturnType<typeof planeVariants>[number],
  ];
  const ways: { title: string; env: NodeJS.ProcessEnv; groups?: number }[] = [
    { title: 'after backpropagation', env: { ...native.env, HOROVOD_OVERLAP: 'never' } },
    {
      title: 'overlapped',
      env: { ...native.env, HOROVOD_OVERLAP: 'always', HOROVOD_BUCKET_BYTES: '512' },
    },
    {
      title: 'overlapped, each gradient alone',
      env: { ...native.env, HOROVOD_OVERLAP: 'always', HOROVOD_BUCKET_BYTES: '0' },
    },
    { title: 'in 2 groups', env: { ...native.env, HOROVOD_OVERLAP: 'never' }, groups: 2 },
    { title: 'portable', env: portable.env },
  ];
  const skip = native.skip || portable.skip;
  test('are the same in every way', { skip }, async () => {
    const digests: string[] = [];
    for (const { title, env, groups } of ways) {
      const job = await spawnRanks(3, trainingFixture('digest.mjs'), {
        args: [JSON.stringify(groups ?? null)],
        env: { ...env, HOROVOD_TIMEOUT_SECONDS: '60' },
        timeoutMs: 60_000,
      });
      assert.equal(job.exitCode, 0, `${title}: ${job.stderr}`);
      digests.push(...job.ranks.map(({ stdout }) => stdout.trim()));
    }
    assert.equal(digests.length, 3 * ways.length);
    assert.match(digests[0] as string, /^[0-9a-f]{64}$/);
    assert.deepEqual(
      digests,
      digests.map(() => digests[0]),
    );
  });
});
