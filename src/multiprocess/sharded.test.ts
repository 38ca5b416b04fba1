// Optimizer state sharded over real ranks (ZeRO-1): test/fixtures/training/sharded-cases.mjs has the cases.

import { describe, test } from 'node:test';
import { planeVariants, reportCases, trainingFixture } from '../testing/case-jobs.ts';
import { spawnRanks } from '../testing/spawn-ranks.ts';

const [native, portable] = planeVariants() as [
  ReturnType<typeof planeVariants>[number],
  ReturnType<typeof planeVariants>[number],
];
const ways = [
  { ...native, np: 3, backend: 'wasm' },
  { ...portable, np: 2, backend: 'cpu' },
];

describe('sharded optimizer state', () => {
  for (const { title, env, plane, skip, np, backend } of ways) {
    test(`${np} ranks, ${backend}, ${title}`, { skip }, async (t) => {
      const job = await spawnRanks(np, trainingFixture('sharded-cases.mjs'), {
        args: [backend],
        env: { ...env, HOROVOD_TIMEOUT_SECONDS: '60' },
        timeoutMs: 120_000,
      });
      await reportCases(t, job, plane);
    });
  }
});
