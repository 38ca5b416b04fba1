// DistributedOptimizer and DistributedGradientTape on real ranks: test/fixtures/training/optimizer-cases.ts. The portable
// transport has no threads, so overlap changes nothing there.

import { describe, test } from 'node:test';
import { runCaseJob, transportVariants } from '../support/case-jobs.ts';

const ways = {
  shm: [
    { np: 2, backend: 'wasm', overlap: 'always' },
    { np: 3, backend: 'wasm', overlap: 'never' },
  ],
  portable: [{ np: 2, backend: 'cpu', overlap: 'auto' }],
};

for (const { title, env, transport, skip } of transportVariants()) {
  describe(`optimizer and tape, ${title}`, () => {
    for (const { np, backend, overlap } of ways[transport]) {
      test(`${np} ranks, ${backend}, overlap ${overlap}`, { skip }, (t) =>
        runCaseJob(t, np, 'training/optimizer-cases.ts', {
          transport,
          // Adasum takes a power of two.
          cases: np === 3 ? 'training/optimizer-cases-3-ranks' : undefined,
          args: [backend],
          // Buckets so small that there are several.
          env: { ...env, HOROVOD_OVERLAP: overlap, HOROVOD_BUCKET_BYTES: '16' },
        }),
      );
    }
  });
}
