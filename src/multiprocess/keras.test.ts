// horovod/keras on real ranks: test/fixtures/keras/keras-cases.mjs has the cases. Two ranks on both planes
// with the backend most jobs have, three on one with TensorFlow.js's plain one.

import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { planeVariants, reportCases } from '../testing/case-jobs.ts';
import { spawnRanks } from '../testing/spawn-ranks.ts';

const fixture = fileURLToPath(new URL('../../test/fixtures/keras/keras-cases.mjs', import.meta.url));

for (const { title, env, plane, skip } of planeVariants()) {
  describe(`Keras cases, ${title}`, () => {
    for (const np of title === 'native' ? [2, 3] : [2]) {
      const backend = np === 2 ? 'wasm' : 'cpu';
      test(`${np} ranks, ${backend}`, { skip }, async (t) => {
        const limits = { HOROVOD_TIMEOUT_SECONDS: '60' };
        const job = await spawnRanks(np, fixture, {
          args: [backend],
          env: { ...env, ...limits },
          timeoutMs: 240_000,
        });
        await reportCases(t, job, plane);
      });
    }
  });
}
