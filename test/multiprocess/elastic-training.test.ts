// Elastic training in real processes that die at every point of it: no step is lost and none counts twice, and what belongs to
// the process (memory, descriptors) is the same in every generation.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { loadNative } from '../../src/transport/native/load.ts';
import { startFaultJob } from '../support/fault-job.ts';

interface Finished {
  readonly worker: number;
  readonly size: number;
  readonly steps: number;
  readonly sums: readonly number[];
  readonly stale: string;
  readonly open: readonly { place: string; files: number; listeners: number }[];
}

const hasAddon = loadNative().built;
const deaths = '1:step:5,3:reset,0:reduced:12,5:sync,2:committed:20,4:done:30';
const jobs = [
  { title: 'shm', form: 'promises', env: { HOROVOD_TRANSPORT: 'shm' }, flags: [] },
  { title: 'portable, blocking', form: 'sync', env: { HOROVOD_TRANSPORT: 'portable' }, flags: [] },
  { title: 'tcp, two hosts', form: 'sync', env: {}, flags: ['-H', 'localhost:2,127.0.0.1:1'] },
];

describe('elastic training', { concurrency: 2 }, () => {
  for (const { title, form, env, flags } of jobs) {
    const skip = !hasAddon && title !== 'portable, blocking' ? 'the native addon is not built' : false;
    test(`ranks die at every point of it: ${title}`, { skip }, async (t) => {
      const folder = mkdtempSync(join(tmpdir(), 'horovod-test-'));
      t.after(() => rmSync(folder, { recursive: true, force: true }));
      const { run, ended } = startFaultJob(t, 3, 'elastic-training.ts', {
        args: [form, folder, deaths],
        flags: ['--min-np', '1', '--blacklist-cooldown-range', '0.1', '0.2', ...flags],
        env,
      });
      const transcript = () => `${run.stdout}\n${run.stderr}`;
      assert.equal((await ended()).exitCode, 0, transcript());
      const finished = [...run.stdout.matchAll(/finished (\{.*\})$/gm)].map(
        ([, text]) => JSON.parse(text as string) as Finished,
      );
      assert.equal(finished.length, finished[0]?.size, transcript());
      for (const { size, steps, sums } of finished) {
        assert.ok(steps >= 30);
        // Every step of the whole job adds exactly one, whoever did it and whatever the size was.
        assert.deepEqual([size, ...sums], [finished.length, steps, steps, steps], transcript());
      }
      assert.ok(finished.some(({ stale }) => stale === 'ERR_HVD_STALE'));
      for (const { open } of finished) {
        for (const each of open) {
          const first = open.find(({ place }) => place === each.place);
          assert.deepEqual(each, first, transcript());
        }
      }
      const ready = [...run.stdout.matchAll(/ready (\{.*\})$/gm)].map(
        ([, text]) =>
          JSON.parse(text as string) as {
            worker: number;
            planned: { rank: number; size: number };
            early: string;
          },
      );
      for (const { worker, planned, early } of ready) {
        assert.equal(early, 'ERR_HVD_INVALID_ARGUMENT');
        assert.equal(planned.size, 3);
        // Who comes later is never taken for rank 0.
        if (worker > 2) assert.ok(planned.rank > 0, transcript());
      }
    });
  }

  test('fit() goes on without a lost rank, and comes to the weights of a job that nothing happened to', async (t) => {
    const train = async (np: number) => {
      const flags = ['--min-np', '1', '--cooldown-range', '0', '0'];
      const { run, ended } = startFaultJob(t, np, 'elastic-fit.ts', { flags });
      assert.equal((await ended()).exitCode, 0, `${run.stdout}\n${run.stderr}`);
      const [, text = ''] = run.stdout.match(/trained (\{.*\})$/m) ?? [];
      return JSON.parse(text) as {
        size: number;
        generation: number;
        commits: number;
        tensors: number[];
        weights: number[];
      };
    };
    const [plain, disturbed] = await Promise.all([train(1), train(2)]);
    assert.deepEqual([disturbed.size, disturbed.generation, plain.generation], [1, 2, 1]);
    assert.equal(disturbed.commits, plain.commits, 'no step was lost, and none was done twice');
    for (const [i, weight] of plain.weights.entries())
      assert.ok(Math.abs((disturbed.weights[i] as number) - weight) < 1e-5, `weight ${i}`);
    // fit() of TensorFlow.js leaves two behind when it is interrupted: its list of indices, and the total of the loss.
    assert.deepEqual(
      disturbed.tensors.slice(1).map((count) => count - (plain.tensors[1] as number)),
      [2, 2],
    );
  });
});
