// The bits of a result depend on the inputs and the number of ranks, and on nothing else: not on the run, the plane,
// the form, the fusion, or the kind of memory.

import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as collectives from '../context/collectives.ts';
import { Average, Sum } from '../tensor/reduce-op.ts';
import { coreFixture, planeVariants } from '../testing/case-jobs.ts';
import { runRanks } from '../testing/run-ranks.ts';
import { spawnRanks } from '../testing/spawn-ranks.ts';

type Call = (...args: never[]) => unknown;
type Digest = (forms: Record<string, Call>, ops: object, rank: number) => Promise<string>;

const np = 3;

/** What each rank of the in-memory plane gets: the definition of the others' results. */
async function digestsInMemory(): Promise<string[]> {
  const { digest } = (await import(coreFixture('digests.mjs'))) as { digest: Digest };
  return runRanks(np, (context, rank) => {
    const { allreduce, groupedAllreduce, reducescatter } = collectives;
    const bound = { allreduce, groupedAllreduce, reducescatter } as Record<string, Call>;
    const forms = Object.fromEntries(
      Object.entries(bound).map(([name, call]) => [name, call.bind(undefined, context as never)]),
    );
    return digest(forms, { Sum, Average }, rank);
  });
}

describe(`the bits of results of ${np} ranks`, () => {
  let expected: string[] = [];
  before(async () => {
    expected = await digestsInMemory();
  });

  const [native, portable] = planeVariants() as [
    ReturnType<typeof planeVariants>[number],
    ReturnType<typeof planeVariants>[number],
  ];
  const variants = [
    native,
    { ...native, title: 'native, a second run' },
    { ...native, title: 'native, without direct copies', env: { ...native.env, HOROVOD_CMA: '0' } },
    {
      ...native,
      title: 'native, hardly any fusion',
      env: { ...native.env, HOROVOD_FUSION_THRESHOLD: '1024' },
    },
    portable,
    { ...portable, title: 'portable, a second run' },
  ];
  for (const { title, plane, env, skip } of variants) {
    test(`${title}: the same as in memory, in both forms`, { skip }, async () => {
      const job = await spawnRanks(np, coreFixture('determinism.mjs'), { env, timeoutMs: 120_000 });
      assert.equal(job.exitCode, 0, job.stderr);
      job.ranks.forEach(({ stdout }, rank) => {
        const own = expected[rank];
        assert.deepEqual(JSON.parse(stdout), { plane, digests: [own, own] });
      });
    });
  }
});
