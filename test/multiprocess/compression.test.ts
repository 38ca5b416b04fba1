// Lossy compression over real ranks: test/fixtures/training/compression-cases.ts has the cases.

import { describe, test } from 'node:test';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { reportCases, trainingFixture, transportVariants } from '../support/case-jobs.ts';

describe('lossy compression', () => {
  for (const [i, { title, env, transport, skip }] of transportVariants().entries()) {
    const backend = i === 0 ? 'wasm' : 'cpu';
    test(`2 ranks, ${backend}, ${title}`, { skip }, async (t) => {
      const job = await spawnRanks(2, trainingFixture('compression-cases.ts'), {
        args: [backend],
        // Overlapped where there is a thread for it, whether or not it finds a core free.
        env: { ...env, HOROVOD_OVERLAP: 'always', HOROVOD_TIMEOUT_SECONDS: '60' },
        timeoutMs: 120_000,
      });
      await reportCases(t, job, transport);
    });
  }
});
