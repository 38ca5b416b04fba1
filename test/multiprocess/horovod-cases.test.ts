// Horovod's own cases (test_torch.py, test_tensorflow.py, test_tensorflow_process_sets.py), on 2 and 3 ranks and on
// both transports. docs/reference/horovod-test-cases.md lists which are here, and why others are not.

import { describe, test } from 'node:test';
import { runCaseJob, transportVariants } from '../support/case-jobs.ts';

for (const { title, env, transport, skip } of transportVariants()) {
  describe(`Horovod's cases, ${title}`, () => {
    for (const np of [2, 3]) {
      test(`${np} ranks`, { skip }, (t) => runCaseJob(t, np, 'core/horovod-cases.ts', { transport, env }));
    }
  });
}
