// The conformance suite with members on several "hosts" of this process, each with a control block of its own.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runTogether } from '../../collectives/reference.ts';
import { Sum } from '../../tensor/reduce-op.ts';
import { describePlane } from '../../testing/plane-conformance.ts';
import { bytes, values, zeros } from '../../testing/plane-data.ts';
import { openGroups, runOnAll, withWorld } from '../../testing/plane-world.ts';
import { makeClusterWorld } from '../../testing/portable-cluster-world.ts';
import type { AllreduceOperation, PlaneOperation } from '../plane.ts';

describePlane('portable, one rank a host,', makeClusterWorld({ hostOf: (rank) => rank }), {
  members: [2, 3],
});

describePlane('portable, ranks dealt to two hosts,', makeClusterWorld({ hostOf: (rank) => rank % 2 }), {
  order: 'any',
  members: [4],
});

test('without hierarchy ranks of one host are connected as those of others, and are combined in order', async () => {
  const makeWorld = makeClusterWorld({ hostOf: (rank) => (rank < 2 ? 0 : 1), isHierarchical: false });
  await withWorld(makeWorld, 3, async (groups) => {
    const make = (index: number): AllreduceOperation => ({
      kind: 'allreduce',
      dtype: 'float32',
      op: Sum,
      inputs: [values('float32', 100_003, index)],
      outputs: [zeros('float32', 100_003)],
      prescale: 1,
      postscale: 1,
    });
    const operations = groups.map((_, index) => make(index));
    const expected = groups.map((_, index) => make(index));
    runTogether(expected);
    await runOnAll(groups, operations);
    assert.deepEqual(operations, expected);
  });
});

test('a group on one host of several needs no connections', async () => {
  const world = await makeClusterWorld({ hostOf: (rank) => (rank < 2 ? 0 : 1) })(3);
  try {
    const groups = await openGroups(world.planes, [1, 0], 5);
    const operations = groups.map(
      (_, index): PlaneOperation => ({ kind: 'allgather', input: bytes(10, index) }),
    );
    const expected = groups.map(
      (_, index): PlaneOperation => ({ kind: 'allgather', input: bytes(10, index) }),
    );
    runTogether(expected);
    await runOnAll(groups, operations);
    assert.deepEqual(operations, expected);
  } finally {
    for (const plane of world.planes) plane.close();
    await world.close();
  }
});
