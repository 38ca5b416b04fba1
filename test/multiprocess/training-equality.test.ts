// N ranks train what one process would: test/fixtures/training/equality-cases.ts.

import { describe, test } from 'node:test';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { reportCases, trainingFixture, transportVariants } from '../support/case-jobs.ts';

const ways = [
  { np: 2, backend: 'wasm', overlap: 'always' },
  { np: 3, backend: 'wasm', overlap: 'never' },
  { np: 2, backend: 'cpu', overlap: 'auto' },
];

for (const { title, env, transport, skip } of transportVariants()) {
  describe(`N ranks train as one process does, ${title}`, () => {
    for (const { np, backend, overlap } of ways) {
      test(`${np} ranks, ${backend}, overlap ${overlap}`, { skip }, async (t) => {
        const job = await spawnRanks(np, trainingFixture('equality-cases.ts'), {
          args: [backend],
          env: {
            ...env,
            HOROVOD_TIMEOUT_SECONDS: '60',
            HOROVOD_OVERLAP: overlap,
            HOROVOD_BUCKET_BYTES: '256',
          },
          timeoutMs: 240_000,
        });
        await reportCases(t, job, transport);
      });
    }
  });
}
