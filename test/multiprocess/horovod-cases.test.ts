// Horovod's own cases (test_torch.py, test_tensorflow.py, test_tensorflow_process_sets.py), on both transports: on 2 and 3 ranks,
// or only on 3 on the portable one (test/cluster/collectives.test.ts runs them there on 2). docs/reference/horovod-test-cases.md
// lists which are here, and why others are not.

import { describe, test } from 'node:test';
import { runCaseJob, transportVariants } from '../support/case-jobs.ts';

for (const { title, env, transport, skip } of transportVariants()) {
  describe(`Horovod's cases, ${title}`, () => {
    for (const np of transport === 'shm' ? [2, 3] : [3]) {
      test(`${np} ranks`, { skip }, (t) => runCaseJob(t, np, 'core/horovod-cases.ts', { transport, env }));
    }
  });
}
