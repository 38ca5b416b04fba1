// Collectives that are called again and again: compiled operations. One job of 2 and one of 3 ranks run all cases.

import { describe, test } from 'node:test';
import { runCaseJob, transportVariants } from '../support/case-jobs.ts';

for (const { title, env, transport, skip } of transportVariants()) {
  if (transport === 'portable') continue;
  describe(`calls that are repeated, ${title}`, () => {
    for (const np of [2, 3]) {
      test(`${np} ranks`, { skip }, (t) => runCaseJob(t, np, 'core/compiled.ts', { transport, env }));
    }
  });
}
