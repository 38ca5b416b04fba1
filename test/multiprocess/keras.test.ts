// horovod/keras on real ranks: test/fixtures/keras/keras-cases.ts has the cases. Two ranks on both transports
// with the backend most jobs have, three on one with TensorFlow.js's plain one.

import { describe, test } from 'node:test';
import { runCaseJob, transportVariants } from '../support/case-jobs.ts';

for (const { title, env, transport, skip } of transportVariants()) {
  describe(`Keras cases, ${title}`, () => {
    for (const np of title === 'native' ? [2, 3] : [2]) {
      const backend = np === 2 ? 'wasm' : 'cpu';
      test(`${np} ranks, ${backend}`, { skip }, (t) =>
        runCaseJob(t, np, 'keras/keras-cases.ts', { transport, env, args: [backend] }),
      );
    }
  });
}
