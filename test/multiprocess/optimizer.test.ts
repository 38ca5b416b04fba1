// DistributedOptimizer and DistributedGradientTape on real ranks: test/fixtures/training/optimizer-cases.ts.

import { describe, test } from 'node:test';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { reportCases, trainingFixture, transportVariants } from '../support/case-jobs.ts';

const ways = [
  { np: 2, backend: 'cpu', overlap: 'auto' },
  { np: 2, backend: 'wasm', overlap: 'always' },
  { np: 3, backend: 'wasm', overlap: 'never' },
];

for (const { title, env, transport, skip } of transportVariants()) {
  describe(`optimizer and tape, ${title}`, () => {
    for (const { np, backend, overlap } of ways) {
      test(`${np} ranks, ${backend}, overlap ${overlap}`, { skip }, async (t) => {
        const job = await spawnRanks(np, trainingFixture('optimizer-cases.ts'), {
          args: [backend],
          // Against hanging, and buckets so small that there are several.
          env: {
            ...env,
            HOROVOD_TIMEOUT_SECONDS: '60',
            HOROVOD_OVERLAP: overlap,
            HOROVOD_BUCKET_BYTES: '16',
          },
          timeoutMs: 240_000,
        });
        await reportCases(t, job, transport);
      });
    }
  });
}
