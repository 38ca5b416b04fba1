// A single process without any launcher.

import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { reportCases } from '../support/case-jobs.ts';
import { fixturePath } from '../support/repository.ts';

test('a process that nobody launched is rank 0 of 1', async (t) => {
  // Whoever runs the tests may be a rank of something.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith('HOROVOD_')),
  );
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [fixturePath('core/alone.ts')], {
    env,
    timeout: 60_000,
  });
  const job = { exitCode: 0, signal: null, stdout, stderr, ranks: [{ stdout, stderr }] };
  await reportCases(t, job, { transport: 'memory', cases: 'core/alone' });
});
