// horovod/keras on real ranks: test/fixtures/keras/keras-cases.ts has the cases. Two ranks on both transports
// with the backend most jobs have, three on one with TensorFlow.js's plain one.

import { describe, test } from 'node:test';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { reportCases, transportVariants } from '../support/case-jobs.ts';
import { fixturePath } from '../support/repository.ts';

const fixture = fixturePath('keras/keras-cases.ts');

for (const { title, env, transport, skip } of transportVariants()) {
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
        await reportCases(t, job, transport);
      });
    }
  });
}
