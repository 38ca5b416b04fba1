// Optimizer state sharded over real ranks (ZeRO-1): test/fixtures/training/sharded-cases.ts has the cases.

import { describe, test } from 'node:test';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { reportCases, trainingFixture, transportVariants } from '../support/case-jobs.ts';

const [native, portable] = transportVariants() as [
  ReturnType<typeof transportVariants>[number],
  ReturnType<typeof transportVariants>[number],
];
const ways = [
  { ...native, np: 3, backend: 'wasm' },
  { ...portable, np: 2, backend: 'cpu' },
];

describe('sharded optimizer state', () => {
  for (const { title, env, transport, skip, np, backend } of ways) {
    test(`${np} ranks, ${backend}, ${title}`, { skip }, async (t) => {
      const job = await spawnRanks(np, trainingFixture('sharded-cases.ts'), {
        args: [backend],
        env: { ...env, HOROVOD_TIMEOUT_SECONDS: '60' },
        timeoutMs: 120_000,
      });
      await reportCases(t, job, transport);
    });
  }
});
