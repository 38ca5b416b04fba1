// Horovod's own cases (test_torch.py, test_tensorflow.py, test_tensorflow_process_sets.py), on 2 and 3 ranks and on
// both transports. docs/reference/horovod-test-cases.md lists which are here, and why others are not.

import { describe, test } from 'node:test';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { coreFixture, reportCases, transportVariants } from '../support/case-jobs.ts';

for (const { title, env, transport, skip } of transportVariants()) {
  describe(`Horovod's cases, ${title}`, () => {
    for (const np of [2, 3]) {
      test(`${np} ranks`, { skip }, async (t) => {
        // Against hanging: a case that leaves a rank behind must not wait for half an hour.
        const limits = { HOROVOD_TIMEOUT_SECONDS: '60' };
        const job = await spawnRanks(np, coreFixture('horovod-cases.ts'), {
          env: { ...env, ...limits },
          timeoutMs: 240_000,
        });
        await reportCases(t, job, transport);
      });
    }
  });
}
