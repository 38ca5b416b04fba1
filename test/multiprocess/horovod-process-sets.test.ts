// Horovod's cases that begin with an init() of their own: init again, static and dynamic process sets.

import { describe, test } from 'node:test';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { coreFixture, reportCases, transportVariants } from '../support/case-jobs.ts';

for (const { title, env, transport, skip } of transportVariants()) {
  describe(`init and process sets, ${title}`, () => {
    for (const np of [2, 3]) {
      test(`${np} ranks`, { skip }, async (t) => {
        const limits = { HOROVOD_TIMEOUT_SECONDS: '30', HOROVOD_START_TIMEOUT: '30' };
        const job = await spawnRanks(np, coreFixture('horovod-process-sets.ts'), {
          env: { ...env, ...limits },
          timeoutMs: 120_000,
        });
        await reportCases(t, job, transport);
      });
    }
  });
}
