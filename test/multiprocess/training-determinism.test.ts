// Trained weights have the same bits in every run, and however the gradients travelled: overlapped or not, in buckets of any
// size, in groups, with sharded optimizer state, on any transport.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { transportVariants } from '../support/case-jobs.ts';
import { fixturePath } from '../support/repository.ts';

describe('the bits of trained weights, 3 ranks', () => {
  const [native, portable] = transportVariants() as [
    ReturnType<typeof transportVariants>[number],
    ReturnType<typeof transportVariants>[number],
  ];
  const tcp = { transport: 'tcp', env: { ...native.env, HOROVOD_TRANSPORT: 'tcp' } };
  // Not by HOROVOD_NATIVE=0: without the addon, other kernels would compute, which round differently.
  const slow = { transport: 'portable', env: { HOROVOD_TRANSPORT: 'portable' } };
  const never = { HOROVOD_OVERLAP: 'never' };
  const always = { HOROVOD_OVERLAP: 'always', HOROVOD_BUCKET_BYTES: '512' };
  // Each transport twice: what is the same in all of them is the same in two runs.
  const ways: { title: string; transport: string; env: NodeJS.ProcessEnv }[] = [
    { title: 'shm, after backpropagation', transport: 'shm', env: { ...native.env, ...never } },
    { title: 'shm, overlapped', transport: 'shm', env: { ...native.env, ...always } },
    {
      title: 'shm, overlapped, each gradient alone',
      transport: 'shm',
      env: { ...native.env, ...always, HOROVOD_BUCKET_BYTES: '0' },
    },
    { title: 'tcp, after backpropagation', ...tcp, env: { ...tcp.env, ...never } },
    { title: 'tcp, overlapped', ...tcp, env: { ...tcp.env, ...always } },
    { title: 'portable', ...slow, env: { ...slow.env, ...never } },
    // It has no threads: "always" changes nothing there.
    { title: 'portable, a second run', ...slow, env: { ...slow.env, ...always } },
  ];
  const skip = native.skip || portable.skip;
  test('are the same in every way', { skip }, async () => {
    const digests: string[] = [];
    for (const { title, transport, env } of ways) {
      const job = await spawnRanks(3, fixturePath('training/digest.ts'), {
        env: { ...env, HOROVOD_TIMEOUT_SECONDS: '60' },
        timeoutMs: 60_000,
      });
      assert.equal(job.exitCode, 0, `${title}: ${job.stderr}`);
      for (const { stdout } of job.ranks) {
        const line = JSON.parse(stdout) as { transport: string; digests: string[] };
        assert.equal(line.transport, transport, title);
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
