// Autotune on real ranks: test/fixtures/autotune/autotune-cases.mjs has the cases.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { planeVariants, reportCases } from '../testing/case-jobs.ts';
import { spawnRanks } from '../testing/spawn-ranks.ts';

const fixture = fileURLToPath(new URL('../../test/fixtures/autotune/autotune-cases.mjs', import.meta.url));

describe('autotune', () => {
  for (const { title, env, plane, skip } of planeVariants()) {
    test(`2 ranks, ${title}`, { skip }, async (t) => {
      const directory = mkdtempSync(join(tmpdir(), 'hvd-autotune-'));
      t.after(() => rmSync(directory, { recursive: true }));
      const flags = ['--autotune', '--autotune-log-file', join(directory, 'log.csv')];
      const few = ['--autotune-warmup-samples', '1', '--autotune-steps-per-sample', '2'];
      const job = await spawnRanks(2, fixture, {
        flags: [...flags, ...few, '--autotune-bayes-opt-max-samples', '3', '--cycle-time-ms', '0'],
        args: [title === 'native' ? 'tensorflow' : 'core'],
        env: {
          ...env,
          HOROVOD_AUTOTUNE_FILE: join(directory, 'result.json'),
          HOROVOD_TIMEOUT_SECONDS: '30',
        },
      });
      await reportCases(t, job, plane);
      await t.test('says what it does, at any level of the log, on rank 0 only', () => {
        const [first, second] = job.ranks.map(({ stderr }) => stderr) as [string, string];
        assert.match(first, /autotune searching 1\/3: .* a step with fusionThresholdBytes 128 MiB/);
        assert.match(first, /autotune is over: /);
        assert.match(first, /autotune uses the result in /);
        assert.match(first, /the ranks do not end their steps at the same point/);
        assert.doesNotMatch(second, /autotune/);
      });
    });
  }
});
