// The conformance suite on the transport for several hosts, with one rank per host.

import { test } from 'node:test';
import { makeHierarchicalWorld, native, order } from '../../../test/support/hierarchical-world.ts';
import { describeTransport } from '../../../test/support/transport-conformance.ts';

if (native.built) {
  const makeWorld = makeHierarchicalWorld({ hostOf: (rank) => rank });
  describeTransport('tcp, one rank per host,', makeWorld, { order, members: [1, 2, 5] });
} else {
  test('the native addon', { skip: native.reason }, () => {});
}
