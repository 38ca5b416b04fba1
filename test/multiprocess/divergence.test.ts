// Mistakes that let ranks train different models: test/fixtures/training/divergence-cases.ts has the cases.

import { describe, test } from 'node:test';
import { runCaseJob, transportVariants } from '../support/case-jobs.ts';

for (const { title, env, transport, skip } of transportVariants()) {
  const backend = title === 'native' ? 'wasm' : 'cpu';
  describe(`ranks that would diverge, ${title}`, () => {
    test(`2 ranks, ${backend}`, { skip }, (t) =>
      runCaseJob(t, 2, 'training/divergence-cases.ts', { transport, env, args: [backend] }),
    );
  });
  if (title === 'native') {
    test('HOROVOD_DIVERGENCE_CHECK=0', { skip }, (t) =>
      runCaseJob(t, 2, 'training/divergence-cases.ts', {
        transport,
        env: { ...env, HOROVOD_DIVERGENCE_CHECK: '0' },
        cases: 'training/divergence-cases-off',
        args: [backend, 'off'],
      }),
    );
  }
}
