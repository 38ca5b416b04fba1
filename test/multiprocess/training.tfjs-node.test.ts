// Training with tfjs-node on real ranks, on both transports. Run by the stage tfjs-node only.

import { describe, test } from 'node:test';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { reportCases, trainingFixture, transportVariants } from '../support/case-jobs.ts';

for (const { title, env, transport, skip } of transportVariants()) {
  describe(`tfjs-node, ${title}`, () => {
    // Against hanging; and TensorFlow's greeting is not what the tests are about.
    const quiet = { ...env, HOROVOD_TIMEOUT_SECONDS: '60', TF_CPP_MIN_LOG_LEVEL: '2' };

    test('training', { skip }, async (t) => {
      const fixture = trainingFixture('tfjs-node-cases.ts');
      const job = await spawnRanks(2, fixture, { env: quiet, timeoutMs: 240_000 });
      await reportCases(t, job, transport);
    });

    for (const overlap of ['never', 'always']) {
      test(`optimizer and tape, overlap ${overlap}`, { skip }, async (t) => {
        const job = await spawnRanks(2, trainingFixture('optimizer-cases.ts'), {
          args: ['tensorflow'],
          env: { ...quiet, HOROVOD_OVERLAP: overlap, HOROVOD_BUCKET_BYTES: '16' },
          timeoutMs: 240_000,
        });
        await reportCases(t, job, transport);
      });
    }
  });
}
