// The conformance suite on the transport for several hosts, with gloo between them.

import { test } from 'node:test';
import { gloo, makeHierarchicalWorld, order } from '../../../test/support/hierarchical-world.ts';
import { describeTransport } from '../../../test/support/transport-conformance.ts';

if (gloo.built) {
  const oneEach = makeHierarchicalWorld({ hostOf: (rank) => rank, transport: 'gloo' });
  describeTransport('gloo, one rank per host,', oneEach, { order, members: [3] });
  const twoHosts = makeHierarchicalWorld({ hostOf: (rank) => rank % 2, transport: 'gloo' });
  describeTransport('gloo, two hosts,', twoHosts, { order, members: [4], parts: ['operations', 'rounds'] });
} else {
  test('the addon for gloo', { skip: gloo.reason }, () => {});
}
