// Training with tfjs-node on real ranks, on both planes. Run by the stage tfjs-node only.

import { describe, test } from 'node:test';
import { planeVariants, reportCases, trainingFixture } from '../testing/case-jobs.ts';
import { spawnRanks } from '../testing/spawn-ranks.ts';

for (const { title, env, plane, skip } of planeVariants()) {
  describe(`tfjs-node, ${title}`, () => {
    // Against hanging; and TensorFlow's greeting is not what the tests are about.
    const quiet = { ...env, HOROVOD_TIMEOUT_SECONDS: '60', TF_CPP_MIN_LOG_LEVEL: '2' };

    test('training', { skip }, async (t) => {
      const fixture = trainingFixture('tfjs-node-cases.mjs');
      const job = await spawnRanks(2, fixture, { env: quiet, timeoutMs: 240_000 });
      await reportCases(t, job, plane);
    });

    for (const overlap of ['never', 'always']) {
      test(`optimizer and tape, overlap ${overlap}`, { skip }, async (t) => {
        const job = await spawnRanks(2, trainingFixture('optimizer-cases.mjs'), {
          args: ['tensorflow'],
          env: { ...quiet, HOROVOD_OVERLAP: overlap, HOROVOD_BUCKET_BYTES: '16' },
          timeoutMs: 240_000,
        });
        await reportCases(t, job, plane);
      });
    }
  });
}
