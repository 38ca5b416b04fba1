// The conformance suite on the plane for several hosts: all ranks in this process, on hosts that are told, not real; the
// connections between them are.

import { test } from 'node:test';
import { loadNative } from '../../native/load.ts';
import { JobSecret } from '../../rendezvous/job-secret.ts';
import { describePlane, type PlaneWorld } from '../../testing/plane-conformance.ts';
import { ControlBlock } from '../control-block.ts';
import { MeshListener } from '../mesh/listener.ts';
import { ClusterPlane } from './cluster-plane.ts';

const native = loadNative();
const gloo = loadNative({ engine: 'gloo' });

interface Layout {
  /** Host of each rank. */
  readonly hostOf: (rank: number, ranks: number) => number;
  readonly hierarchicalAllreduce?: boolean;
  readonly hierarchicalAllgather?: boolean;
  readonly engine?: 'tcp' | 'gloo';
}

function makeWorld({
  hostOf,
  hierarchicalAllreduce = true,
  hierarchicalAllgather = true,
  engine = 'tcp',
}: Layout): (ranks: number) => Promise<PlaneWorld> {
  return async (ranks) => {
    const found = engine === 'gloo' ? gloo : native;
    if (!found.built) throw new Error(found.reason);
    const identity = { secret: JobSecret.generate(), jobId: 'conformance' };
    const all = Array.from({ length: ranks }, (_, rank) => rank);
    const listeners = await Promise.all(all.map((rank) => MeshListener.open({ ...identity, rank })));
    const hosts = new Map(all.map((rank) => [rank, hostOf(rank, ranks)]));
    // One block a host, as on real ones: what happens on one host is not seen on the other.
    const blocks = new Map([...new Set(hosts.values())].map((host) => [host, ControlBlock.create(ranks)]));
    const planes = all.map((rank) => {
      const block = blocks.get(hosts.get(rank) as number) as ControlBlock;
      block.attach(rank);
      return new ClusterPlane(found.addon, block, {
        rank,
        localSize: ranks,
        cma: true,
        timeoutMs: 20_000,
        stallAfterMs: 0,
        engine,
        listener: listeners[rank] as MeshListener,
        candidates: new Map(listeners.map(({ candidates }, each) => [each, candidates])),
        hosts,
        hostnames: new Map(all.map((each) => [each, `host${hosts.get(each)}`])),
        generation: '1',
        hierarchicalAllreduce,
        hierarchicalAllgather,
      });
    });
    const close = () => {
      for (const listener of listeners) listener.close();
      for (const block of blocks.values()) block.close();
    };
    return { planes, close };
  };
}

if (native.built) {
  const order = 'any';
  describePlane('tcp, one rank a host,', makeWorld({ hostOf: (rank) => rank }), {
    order,
    members: [1, 2, 5],
  });
  describePlane('tcp, two hosts,', makeWorld({ hostOf: (rank, ranks) => Math.floor((2 * rank) / ranks) }), {
    order,
    members: [4, 5],
  });
  describePlane('tcp, ranks dealt out in turn to three hosts,', makeWorld({ hostOf: (rank) => rank % 3 }), {
    order,
    members: [6],
  });
  const inTurn = (rank: number) => rank % 2;
  describePlane(
    'tcp, two hosts, allgathers flat,',
    makeWorld({ hostOf: inTurn, hierarchicalAllgather: false }),
    { order, members: [4] },
  );
  describePlane(
    'tcp, two hosts, all but allgathers flat,',
    makeWorld({ hostOf: inTurn, hierarchicalAllreduce: false }),
    { order, members: [3] },
  );
} else {
  test('the native addon', { skip: native.reason }, () => {});
}

if (gloo.built) {
  const hostOf = (rank: number) => rank % 2;
  describePlane('gloo, two hosts,', makeWorld({ hostOf, engine: 'gloo' }), { order: 'any', members: [4] });
  describePlane('gloo, one rank a host,', makeWorld({ hostOf: (rank) => rank, engine: 'gloo' }), {
    order: 'any',
    members: [3],
  });
} else {
  test('the addon for gloo', { skip: gloo.reason }, () => {});
}
