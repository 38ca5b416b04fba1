// N ranks train what one process would: test/fixtures/training/equality-cases.ts. The portable transport has no threads, so
// overlap changes nothing there.

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
  describe(`N ranks train as one process does, ${title}`, () => {
    for (const { np, backend, overlap } of ways[transport]) {
      test(`${np} ranks, ${backend}, overlap ${overlap}`, { skip }, (t) =>
        runCaseJob(t, np, 'training/equality-cases.ts', {
          transport,
          args: [backend],
          env: { ...env, HOROVOD_OVERLAP: overlap, HOROVOD_BUCKET_BYTES: '256' },
        }),
      );
    }
  });
}
