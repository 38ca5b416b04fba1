// Operations that the ranks have agreed on before, called by ranks that do not come at the same time, on every transport.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { openContexts } from '../../../test/support/context-world.ts';
import { gloo, makeHierarchicalWorld, native } from '../../../test/support/hierarchical-world.ts';
import { makePortableWorld, makeShmWorld } from '../../../test/support/local-worlds.ts';
import { makeClusterWorld } from '../../../test/support/portable-cluster-world.ts';
import { type MakeWorld, turn } from '../../../test/support/transport-world.ts';
import { Average, Sum } from '../../tensor/reduce-op.ts';
import * as hvd from '../collectives.ts';

const ranks = 4;
const hostOf = (rank: number) => (rank < 3 ? 0 : 1);
const skipNative = native.built ? false : native.reason;
const worlds: { name: string; make: MakeWorld; skip: string | false }[] = [
  { name: 'shm', make: makeShmWorld(), skip: skipNative },
  { name: 'portable', make: makePortableWorld, skip: false },
  { name: 'tcp', make: makeHierarchicalWorld({ hostOf }), skip: skipNative },
  {
    name: 'gloo',
    make: makeHierarchicalWorld({ hostOf, transport: 'gloo' }),
    skip: gloo.built ? false : gloo.reason,
  },
  { name: 'portable on two hosts', make: makeClusterWorld({ hostOf }), skip: false },
];

describe('promise forms of what was agreed before', () => {
  for (const { name, make, skip } of worlds) {
    test(`have the right result on ${name}, whoever comes last`, { skip }, async () => {
      const { contexts, close } = await openContexts(make, ranks, (_rank, spec, open) => open(spec));
      try {
        for (let step = 0; step < 2 * ranks; step++) {
          const results = await Promise.all(
            contexts.map(async (context, rank) => {
              // In each step another rank comes while the others wait on their own threads.
              if (rank === step % ranks) for (let i = 0; i < 50; i++) await turn();
              const one = Float32Array.of(rank + step, 1);
              const sum = await hvd.allreduce(context, one, { op: Sum });
              const named = await hvd.allreduce(context, one, { op: Average, name: 'mean' });
              const from = await hvd.broadcast(context, one, 3);
              const part = await hvd.reducescatter(context, new Float32Array(ranks).fill(rank), { op: Sum });
              const all = await hvd.allgather(context, one);
              const { output } = await hvd.alltoall(context, new Int32Array(ranks).fill(rank));
              await hvd.barrier(context);
              return [sum, named, from, part, all, output].map((list) => [...list]);
            }),
          );
          const total = 6 + ranks * step;
          for (const [rank, found] of results.entries()) {
            assert.deepEqual(
              found,
              [
                [total, ranks],
                [total / ranks, 1],
                [3 + step, 1],
                [6],
                [0, 1, 2, 3].flatMap((each) => [each + step, 1]),
                [0, 1, 2, 3],
              ],
              `rank ${rank}, step ${step}`,
            );
          }
        }
      } finally {
        await close();
      }
    });
  }
});
