// Wrong arguments get a clear error at the call, and the context stays usable.

import { describe, test } from 'node:test';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { coreFixture, reportCases, transportVariants } from '../support/case-jobs.ts';

for (const { title, env, transport, skip } of transportVariants()) {
  describe(`bad input, ${title}`, () => {
    test('2 ranks', { skip }, async (t) => {
      const job = await spawnRanks(2, coreFixture('bad-input.ts'), {
        env: { ...env, HOROVOD_TIMEOUT_SECONDS: '30' },
        timeoutMs: 120_000,
      });
      await reportCases(t, job, transport);
    });
  });
}
