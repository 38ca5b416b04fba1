// Collectives on tf tensors, their gradients, broadcast of variables and SyncBatchNormalization: on 2 and 3 ranks, on
// both transports, and within each job on the cpu and the wasm backend.

import { describe, test } from 'node:test';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { reportCases, transportVariants } from '../support/case-jobs.ts';
import { fixturePath } from '../support/repository.ts';

const fixture = fixturePath('tensorflow/tensor-cases.ts');

for (const { title, env, transport, skip } of transportVariants()) {
  describe(`tensors of TensorFlow.js, ${title}`, () => {
    for (const np of [2, 3]) {
      test(`${np} ranks`, { skip }, async (t) => {
        const job = await spawnRanks(np, fixture, {
          env: { ...env, HOROVOD_TIMEOUT_SECONDS: '60' },
          timeoutMs: 240_000,
        });
        await reportCases(t, job, transport);
      });
    }
  });
}
