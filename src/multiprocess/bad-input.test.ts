// Wrong arguments get a clear error at the call, and the context stays usable.

import { describe, test } from 'node:test';
import { coreFixture, planeVariants, reportCases } from '../testing/case-jobs.ts';
import { spawnRanks } from '../testing/spawn-ranks.ts';

for (const { title, env, plane, skip } of planeVariants()) {
  describe(`bad input, ${title}`, () => {
    test('2 ranks', { skip }, async (t) => {
      const job = await spawnRanks(2, coreFixture('bad-input.mjs'), {
        env: { ...env, HOROVOD_TIMEOUT_SECONDS: '30' },
        timeoutMs: 120_000,
      });
      await reportCases(t, job, plane);
    });
  });
}
