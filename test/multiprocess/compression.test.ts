// Lossy compression over real ranks: test/fixtures/training/compression-cases.ts has the cases.

import { describe, test } from 'node:test';
import { runCaseJob, transportVariants } from '../support/case-jobs.ts';

describe('lossy compression', () => {
  for (const { title, env, transport, skip } of transportVariants()) {
    const backend = title === 'native' ? 'wasm' : 'cpu';
    test(`2 ranks, ${backend}, ${title}`, { skip }, (t) =>
      runCaseJob(t, 2, 'training/compression-cases.ts', {
        transport,
        args: [backend],
        // Overlapped where there is a thread for it, whether or not it finds a core free.
        env: { ...env, HOROVOD_OVERLAP: 'always' },
      }),
    );
  }
});
