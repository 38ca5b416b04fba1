// The bits of a result depend on the inputs and the number of ranks, and on nothing else: not on the run, the transport,
// the form, the fusion, the order in which promises are asked for, or the kind of memory. On tcp they also depend on where the
// ranks are and on what was fused; docs/guide/determinism.md says what is promised.

import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { runRanks } from 'horovod/testing';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { anyOrder, digest } from '../fixtures/core/digests.ts';
import { transportVariants } from '../support/case-jobs.ts';
import { fixturePath } from '../support/repository.ts';

const np = 3;

/** What each rank of the in-memory transport gets: the definition of the others' results. */
function digestsInMemory(): Promise<string[]> {
  return runRanks(np, (hvd) => digest(hvd, hvd, hvd.rank(), { order: anyOrder }));
}

describe(`the bits of results of ${np} ranks`, () => {
  let expected: string[] = [];
  before(async () => {
    expected = await digestsInMemory();
  });

  const [native, portable] = transportVariants() as [
    ReturnType<typeof transportVariants>[number],
    ReturnType<typeof transportVariants>[number],
  ];
  const variants = [
    native,
    { ...native, title: 'native, without direct copies', env: { ...native.env, HOROVOD_CMA: '0' } },
    { ...native, title: 'native, with direct copies', env: { ...native.env, HOROVOD_CMA: '1' } },
    {
      ...native,
      title: 'native, hardly any fusion',
      env: { ...native.env, HOROVOD_FUSION_THRESHOLD: '1024' },
    },
    portable,
  ];
  for (const { title, transport, env, skip } of variants) {
    test(`${title}: the same as in memory, in both forms`, { skip }, async () => {
      const job = await spawnRanks(np, fixturePath('core/determinism.ts'), { env, timeoutMs: 120_000 });
      assert.equal(job.exitCode, 0, job.stderr);
      job.ranks.forEach(({ stdout }, rank) => {
        const own = expected[rank];
        assert.deepEqual(JSON.parse(stdout), { transport, digests: [own, own] });
      });
    });
  }

  // Its sums begin at another rank for each part of a tensor, so the last bits are others than in memory.
  const tcp = { env: { ...native.env, HOROVOD_TRANSPORT: 'tcp' } };
  // Two hosts have two sums to add, in whatever order.
  const hosts = { env: native.env, flags: ['-H', 'localhost:2,127.0.0.1:1'], args: ['loose'] };
  const unfused = { env: { ...tcp.env, HOROVOD_FUSION_THRESHOLD: '0' }, args: ['loose'] };
  const between = {
    'tcp: in two runs the same': tcp,
    'tcp between two hosts: the same whenever promises are asked for': hosts,
    'tcp without fusion: the same whenever promises are asked for': unfused,
  };
  for (const [title, how] of Object.entries(between)) {
    test(title, { skip: native.skip }, async () => {
      const isLoose = 'args' in how;
      const runs: string[][][] = [];
      // What does not depend on when promises are asked for has two digests in one run.
      for (const _ of isLoose ? ['only'] : ['first', 'second']) {
        const job = await spawnRanks(np, fixturePath('core/determinism.ts'), { ...how, timeoutMs: 120_000 });
        assert.equal(job.exitCode, 0, job.stderr);
        const lines = job.ranks.map(
          ({ stdout }) => JSON.parse(stdout) as { transport: string; digests: string[] },
        );
        for (const { transport, digests } of lines) {
          assert.equal(transport, 'tcp');
          // Of all operations there are two digests, one of them of the blocking forms, which fuse nothing.
          if (isLoose) assert.equal(digests[0], digests[1]);
        }
        runs.push(lines.map(({ digests }) => digests));
      }
      for (const run of runs) assert.deepEqual(run, runs[0]);
    });
  }
});
