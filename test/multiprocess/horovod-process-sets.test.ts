// Horovod's cases that begin with an init() of their own: init again, static and dynamic process sets.

import { describe, test } from 'node:test';
import { runCaseJob, transportVariants } from '../support/case-jobs.ts';

for (const { title, env, transport, skip } of transportVariants()) {
  describe(`init and process sets, ${title}`, () => {
    const np = transport === 'shm' ? 3 : 2;
    test(`${np} ranks`, { skip }, (t) =>
      runCaseJob(t, np, 'core/horovod-process-sets.ts', {
        transport,
        env: { ...env, HOROVOD_START_TIMEOUT: '30' },
      }),
    );
  });
}
