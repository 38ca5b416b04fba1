// Autotune on real ranks: test/fixtures/autotune/autotune-cases.ts has the cases.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { reportCases, transportVariants } from '../support/case-jobs.ts';
import { fixturePath } from '../support/repository.ts';

const fixture = (name: string) => fixturePath(`autotune/${name}`);

describe('autotune', () => {
  for (const { title, env, transport, skip } of transportVariants()) {
    test(`2 ranks, ${title}`, { skip }, async (t) => {
      const directory = mkdtempSync(join(tmpdir(), 'hvd-autotune-'));
      t.after(() => rmSync(directory, { recursive: true }));
      const flags = ['--autotune', '--autotune-log-file', join(directory, 'log.csv')];
      const few = ['--autotune-warmup-samples', '1', '--autotune-steps-per-sample', '2'];
      const job = await spawnRanks(2, fixture('autotune-cases.ts'), {
        flags: [...flags, ...few, '--autotune-bayes-opt-max-samples', '3', '--cycle-time-ms', '0'],
        args: [title === 'native' ? 'tensorflow' : 'core'],
        env: {
          ...env,
          HOROVOD_AUTOTUNE_FILE: join(directory, 'result.json'),
          HOROVOD_TIMEOUT_SECONDS: '30',
        },
      });
      await reportCases(t, job, { transport, cases: 'autotune/autotune-cases' });
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

  // Two names of this machine are two hosts.
  for (const { title, env, skip } of transportVariants()) {
    test(`3 ranks on two hosts try by host and flat, ${title}`, { skip }, async (t) => {
      const directory = mkdtempSync(join(tmpdir(), 'hvd-autotune-'));
      t.after(() => rmSync(directory, { recursive: true }));
      const log = join(directory, 'log.csv');
      const job = await spawnRanks(3, fixture('two-hosts.ts'), {
        flags: ['-H', 'localhost:2,127.0.0.1:1', '--autotune', '--autotune-log-file', log],
        // Enough for the search; native ranks also compare.
        args: [title === 'native' ? '42' : '18'],
        env: {
          ...env,
          HOROVOD_AUTOTUNE_WARMUP_SAMPLES: '1',
          HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE: '2',
          HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES: '4',
          HOROVOD_FUSION_THRESHOLD: '1000',
          HOROVOD_CYCLE_TIME: '0',
          HOROVOD_TIMEOUT_SECONDS: '30',
        },
      });
      assert.equal(job.exitCode, 0, job.stdout + job.stderr);
      const transport = title === 'native' ? 'tcp' : 'portable';
      for (const { stdout } of job.ranks) {
        const { transport: used, fusionThresholdBytes } = JSON.parse(stdout) as Record<string, unknown>;
        assert.deepEqual([used, fusionThresholdBytes], [transport, 1000]);
      }
      const [header, ...rows] = readFileSync(log, 'utf8').trim().split('\n') as [string, ...string[]];
      const tunables = ['hierarchical_allreduce', 'hierarchical_allgather'];
      if (title === 'native') tunables.push('tcp_switch_bytes');
      assert.equal(header, ['phase', ...tunables, 'step_ms', 'steps_per_second'].join());
      const tried = rows.filter((row) => row.startsWith('searching,')).map((row) => row.split(','));
      tunables.forEach((tunable, i) => {
        assert.ok(new Set(tried.map((row) => row[i + 1])).size > 1, `only one ${tunable} was tried`);
      });
    });
  }
});
