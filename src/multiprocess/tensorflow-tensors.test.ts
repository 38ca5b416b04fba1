// Collectives on tf tensors, their gradients, broadcast of variables and SyncBatchNormalization: on 2 and 3 ranks, on
// both planes, and within each job on the cpu and the wasm backend.

import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { planeVariants, reportCases } from '../testing/case-jobs.ts';
import { spawnRanks } from '../testing/spawn-ranks.ts';

const fixture = fileURLToPath(new URL('../../test/fixtures/tensorflow/tensor-cases.mjs', import.meta.url));

for (const { title, env, plane, skip } of planeVariants()) {
  describe(`tensors of TensorFlow.js, ${title}`, () => {
    for (const np of [2, 3]) {
      test(`${np} ranks`, { skip }, async (t) => {
        const job = await spawnRanks(np, fixture, {
          env: { ...env, HOROVOD_TIMEOUT_SECONDS: '60' },
          timeoutMs: 240_000,
        });
        await reportCases(t, job, plane);
      });
    }
  });
}
