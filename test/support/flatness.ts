// Tests that thousands of operations, process sets and alloc() leak neither memory nor descriptors. Each transport has its own test
// file, because together they take long on a busy machine.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { spawnRanks } from '../../src/testing/spawn-ranks.ts';
import { transportVariants } from './case-jobs.ts';
import { fixturePath } from './repository.ts';

const operations = 5_000;
/** Names of which each is used once. The portable transport remembers nothing by name. */
const names = { native: 400_000, portable: 1000 };

interface Holdings {
  readonly heapUsed: number;
  readonly external: number;
  readonly arrayBuffers: number;
  readonly rss: number;
  readonly maps: number;
  readonly descriptors: number;
  readonly threads: number;
}

// A leak of one buffer, or of a few small objects, per operation would exceed these limits. The last tensors may still be alive, and
// the number of mappings of the transport's heap varies by hundreds. The C library keeps some freed memory, so resident memory is
// the least precise.
const mayGrow: Holdings = {
  heapUsed: 1_500_000,
  external: 4_000_000,
  arrayBuffers: 4_000_000,
  rss: 100_000_000,
  maps: 128,
  descriptors: 0,
  threads: 0,
};

export function describeFlatness(title: 'native' | 'portable'): void {
  const { env, skip } = transportVariants().find((variant) => variant.title === title) ?? {};
  describe(`what 2 ranks hold, ${title}`, () => {
    test('stays flat', { skip: skip ?? false }, async (t) => {
      const job = await spawnRanks(2, fixturePath('core/flatness.ts'), {
        args: [String(operations), String(names[title])],
        env: env ?? {},
        timeoutMs: 240_000,
      });
      assert.equal(job.exitCode, 0, job.stderr);
      const ranks = job.ranks.map(
        ({ stdout }) => JSON.parse(stdout) as { rounds: Record<string, [Holdings, Holdings]> },
      );
      for (const [round, what] of [
        ['operations', `over ${operations} operations of mixed kinds`],
        ['names', `over ${names[title]} names`],
        ['sets', 'over 50 process sets added and removed'],
        ['alloc', 'over 1500 tensors from alloc()'],
      ] as const) {
        await t.test(what, () => {
          for (const [rank, { rounds }] of ranks.entries()) {
            const [before, after] = rounds[round] as [Holdings, Holdings];
            for (const key of Object.keys(mayGrow) as (keyof Holdings)[]) {
              const growth = after[key] - before[key];
              assert.ok(
                growth <= mayGrow[key],
                `rank ${rank}: ${key} grew from ${before[key]} to ${after[key]}`,
              );
            }
          }
        });
      }
    });
  });
}
