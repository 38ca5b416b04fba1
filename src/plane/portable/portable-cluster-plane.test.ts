// The conformance suite with members on several "hosts" of this process, each with a control block of its own.

import { describePlane } from '../../testing/plane-conformance.ts';
import { makeClusterWorld } from '../../testing/portable-cluster-world.ts';

describePlane('portable, one rank a host,', makeClusterWorld({ hostOf: (rank) => rank }));

describePlane('portable, ranks dealt to two hosts,', makeClusterWorld({ hostOf: (rank) => rank % 2 }), {
  order: 'any',
  members: [3, 4],
});

// Three on the first host, of which nothing fits a post and a slot is small: every transfer has many steps.
describePlane(
  'portable, hosts of different size and small slots,',
  makeClusterWorld({
    hostOf: (rank) => (rank === 3 ? 1 : 0),
    sizes: { eagerBytes: 64, slotBytes: 16 * 1024 },
  }),
  { order: 'any', members: [4] },
);

describePlane('portable, flat on one host,', makeClusterWorld({ hostOf: () => 0, isHierarchical: false }), {
  members: [3],
});
