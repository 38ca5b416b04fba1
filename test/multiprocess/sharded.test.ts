// Optimizer state sharded over real ranks (ZeRO-1): test/fixtures/training/sharded-cases.ts has the cases.

import { describe, test } from 'node:test';
import { runCaseJob, transportVariants } from '../support/case-jobs.ts';

describe('sharded optimizer state', () => {
  for (const { title, env, transport, skip } of transportVariants()) {
    const { np, backend } = title === 'native' ? { np: 3, backend: 'wasm' } : { np: 2, backend: 'cpu' };
    test(`${np} ranks, ${backend}, ${title}`, { skip }, (t) =>
      runCaseJob(t, np, 'training/sharded-cases.ts', { transport, env, args: [backend] }),
    );
  }
});
