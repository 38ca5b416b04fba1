// Training with tfjs-node on real ranks, on both transports. Run by the stage tfjs-node only.

import { describe, test } from 'node:test';
import { runCaseJob, transportVariants } from '../support/case-jobs.ts';

for (const { title, env, transport, skip } of transportVariants()) {
  describe(`tfjs-node, ${title}`, () => {
    // TensorFlow's greeting is not what the tests are about.
    const quiet = { ...env, TF_CPP_MIN_LOG_LEVEL: '2' };

    test('training', { skip }, (t) =>
      runCaseJob(t, 2, 'training/tfjs-node-cases.ts', { transport, env: quiet }),
    );

    for (const overlap of ['never', 'always']) {
      test(`optimizer and tape, overlap ${overlap}`, { skip }, (t) =>
        runCaseJob(t, 2, 'training/optimizer-cases.ts', {
          transport,
          args: ['tensorflow'],
          env: { ...quiet, HOROVOD_OVERLAP: overlap, HOROVOD_BUCKET_BYTES: '16' },
        }),
      );
    }
  });
}
