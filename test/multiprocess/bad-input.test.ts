// Wrong arguments get a clear error at the call, and the context stays usable.

import { describe, test } from 'node:test';
import { runCaseJob, transportVariants } from '../support/case-jobs.ts';

for (const { title, env, transport, skip } of transportVariants()) {
  describe(`bad input, ${title}`, () => {
    test('2 ranks', { skip }, (t) => runCaseJob(t, 2, 'core/bad-input.ts', { transport, env }));
  });
}
