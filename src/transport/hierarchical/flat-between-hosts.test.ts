// The conformance suite on the transport for several hosts, where some operations ignore which ranks share a host. How these
// reduce is tested with one rank per host, where everything is flat.

import { test } from 'node:test';
import { makeHierarchicalWorld, native, order } from '../../../test/support/hierarchical-world.ts';
import { describeTransport } from '../../../test/support/transport-conformance.ts';

if (native.built) {
  const hostOf = (rank: number) => rank % 2;
  describeTransport(
    'tcp, two hosts, allgathers flat,',
    makeHierarchicalWorld({ hostOf, hierarchicalAllgather: false }),
    { order, members: [4], parts: ['operations'] },
  );
  describeTransport(
    'tcp, two hosts, all but allgathers flat,',
    makeHierarchicalWorld({ hostOf, hierarchicalAllreduce: false }),
    { order, members: [3], parts: ['operations'] },
  );
} else {
  test('the native addon', { skip: native.reason }, () => {});
}
