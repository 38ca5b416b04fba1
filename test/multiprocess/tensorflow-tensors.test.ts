// Collectives on tf tensors, their gradients, broadcast of variables and SyncBatchNormalization: on 2 and 3 ranks, on
// both transports, and within each job on the cpu and the wasm backend.

import { describe, test } from 'node:test';
import { runCaseJob, transportVariants } from '../support/case-jobs.ts';

for (const { title, env, transport, skip } of transportVariants()) {
  describe(`tensors of TensorFlow.js, ${title}`, () => {
    for (const np of [2, 3]) {
      test(`${np} ranks`, { skip }, (t) =>
        runCaseJob(t, np, 'tensorflow/tensor-cases.ts', { transport, env }),
      );
    }
  });
}
