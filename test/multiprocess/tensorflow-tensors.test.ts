// Collectives on tf tensors, their gradients, broadcast of variables and SyncBatchNormalization: on both transports, with
// 3 ranks on one and 2 on the other, and within each job on the cpu and the wasm backend.

import { describe, test } from 'node:test';
import { runCaseJob, transportVariants } from '../support/case-jobs.ts';

for (const { title, env, transport, skip } of transportVariants()) {
  describe(`tensors of TensorFlow.js, ${title}`, () => {
    const np = transport === 'shm' ? 3 : 2;
    test(`${np} ranks`, { skip }, (t) => runCaseJob(t, np, 'tensorflow/tensor-cases.ts', { transport, env }));
  });
}
