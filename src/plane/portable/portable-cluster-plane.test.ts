// The conformance suite with members on one to three "hosts" of this process, each with a control block of its own.

import { describePlane } from '../../testing/plane-conformance.ts';
import { makeClusterWorld } from '../../testing/portable-cluster-world.ts';

describePlane('portable, one rank a host,', makeClusterWorld({ hostOf: (rank) => rank }));
