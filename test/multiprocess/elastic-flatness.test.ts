// A process of an elastic job goes through many resets, and holds as much in each generation as in the first ones: tensors, files, threads,
// listeners. HVD_RESETS says how many.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { loadNative } from '../../src/transport/native/load.ts';
import { startFaultJob } from '../support/fault-job.ts';

interface Finished {
  readonly rank: number;
  readonly generation: number;
  readonly step: number;
  readonly digest: string;
  readonly notes: readonly Readonly<Record<string, number>>[];
}

const resets = Number(process.env['HVD_RESETS'] ?? 40);
/** What is made with the first step, or loaded with the first reset, is there in the third generation. */
const settled = 2;
const hasAddon = loadNative().built;
const jobs = [
  { title: 'shm', env: { HOROVOD_TRANSPORT: 'shm' }, flags: [] },
  { title: 'portable', env: { HOROVOD_TRANSPORT: 'portable' }, flags: [] },
  { title: 'tcp, two hosts', env: {}, flags: ['-H', 'localhost:1,127.0.0.1:1'] },
];

describe(`${resets} resets`, { concurrency: 2 }, () => {
  for (const { title, env, flags } of jobs) {
    const skip = !hasAddon && title !== 'portable' ? 'the native addon is not built' : false;
    test(`leave nothing behind: ${title}`, { skip }, async (t) => {
      const { run, ended } = startFaultJob(t, 2, 'elastic-resets.ts', {
        args: [String(resets)],
        flags: ['--min-np', '2', ...flags],
        env,
      });
      assert.equal((await ended()).exitCode, 0, run.stderr);
      const finished = [...run.stdout.matchAll(/finished (\{.*\})$/gm)].map(
        ([, text]) => JSON.parse(text as string) as Finished,
      );
      assert.equal(finished.length, 2, run.stderr);
      for (const { generation, step, digest, notes } of finished) {
        assert.deepEqual([generation, notes.length], [resets + 1, resets + 1]);
        assert.deepEqual([step, digest], [finished[0]?.step, finished[0]?.digest]);
        const first = notes[settled] as Record<string, number>;
        for (const [at, later] of notes.slice(settled).entries()) {
          // Less is fine: what Node itself had open at the first look may be closed since.
          for (const [what, count] of Object.entries(later))
            assert.ok(
              count <= (first[what] as number),
              `${what}: ${first[what]}, ${count} after ${at + settled} resets`,
            );
        }
      }
    });
  }
});
