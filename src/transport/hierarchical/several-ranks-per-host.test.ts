// The conformance suite on the transport for several hosts, with several ranks on each host.

import { test } from 'node:test';
import { makeHierarchicalWorld, native, order } from '../../../test/support/hierarchical-world.ts';
import { describeTransport } from '../../../test/support/transport-conformance.ts';

if (native.built) {
  const inBlocks = makeHierarchicalWorld({ hostOf: (rank, ranks) => Math.floor((2 * rank) / ranks) });
  describeTransport('tcp, two hosts,', inBlocks, { order, members: [4, 5] });
  const inTurn = makeHierarchicalWorld({ hostOf: (rank) => rank % 3 });
  describeTransport('tcp, ranks dealt out in turn to three hosts,', inTurn, {
    order,
    members: [6],
    parts: ['operations', 'rounds'],
  });
} else {
  test('the native addon', { skip: native.reason }, () => {});
}
