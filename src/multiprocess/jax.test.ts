// horovod/jax on two real ranks and on both planes: test/fixtures/jax/jax-cases.mjs has the cases.

import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { planeVariants, reportCases } from '../testing/case-jobs.ts';
import { spawnRanks } from '../testing/spawn-ranks.ts';

const fixture = fileURLToPath(new URL('../../test/fixtures/jax/jax-cases.mjs', import.meta.url));

for (const { title, env, plane, skip } of planeVariants()) {
  describe(`jax-js, ${title}`, () => {
    test('2 ranks', { skip }, async (t) => {
      const limits = { HOROVOD_TIMEOUT_SECONDS: '60' };
      const job = await spawnRanks(2, fixture, { env: { ...env, ...limits }, timeoutMs: 240_000 });
      await reportCases(t, job, plane);
    });
  });
}
