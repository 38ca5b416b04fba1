// The conformance suite with members on several "hosts" of this process, each with its own control block.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeClusterWorld } from '../../../test/support/portable-cluster-world.ts';
import { describeTransport } from '../../../test/support/transport-conformance.ts';
import { bytes, values, zeros } from '../../../test/support/transport-data.ts';
import { openGroups, runOnAll, withWorld } from '../../../test/support/transport-world.ts';
import { Sum } from '../../tensor/reduce-op.ts';
import { runTogether } from '../group/run-together.ts';
import type { AllreduceOperation, TransportOperation } from '../transport.ts';

describeTransport('portable, one rank a host,', makeClusterWorld({ hostOf: (rank) => rank }), {
  members: [2, 3],
});

describeTransport('portable, ranks dealt to two hosts,', makeClusterWorld({ hostOf: (rank) => rank % 2 }), {
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
    const groups = await openGroups(world.transports, [1, 0], 5);
    const operations = groups.map(
      (_, index): TransportOperation => ({ kind: 'allgather', input: bytes(10, index) }),
    );
    const expected = groups.map(
      (_, index): TransportOperation => ({ kind: 'allgather', input: bytes(10, index) }),
    );
    runTogether(expected);
    await runOnAll(groups, operations);
    assert.deepEqual(operations, expected);
  } finally {
    for (const transport of world.transports) transport.close();
    await world.close();
  }
});
