// horovod/keras on real ranks: test/fixtures/keras/keras-cases.mjs has the cases. Two ranks on both planes, three on
// one: what the planes do differently is tested elsewhere.

import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { planeVariants, reportCases } from '../testing/case-jobs.ts';
import { spawnRanks } from '../testing/spawn-ranks.ts';

const fixture = fileURLToPath(new URL('../../test/fixtures/keras/keras-cases.mjs', import.meta.url));

for (const { title, env, plane, skip } of planeVariants()) {
  describe(`Keras cases, ${title}`, () => {
    for (const np of title === 'native' ? [2, 3] : [2]) {
      test(`${np} ranks`, { skip }, async (t) => {
        const limits = { HOROVOD_TIMEOUT_SECONDS: '60' };
        const job = await spawnRanks(np, fixture, { env: { ...env, ...limits }, timeoutMs: 240_000 });
        await reportCases(t, job, plane);
      });
    }
  });
}
