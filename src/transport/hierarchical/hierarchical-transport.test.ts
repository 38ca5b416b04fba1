// The conformance suite on the transport for several hosts: all ranks in this process, on hosts that are told, not real; the
// connections between them are.

import { test } from 'node:test';
import { describeTransport, type TransportWorld } from '../../../test/support/transport-conformance.ts';
import { ControlBlock } from '../../control/control-block.ts';
import { MeshListener } from '../../net/mesh/listener.ts';
import { JobSecret } from '../../settings/job-secret.ts';
import { loadNative } from '../native/load.ts';
import { HierarchicalTransport } from './hierarchical-transport.ts';

const native = loadNative();
const gloo = loadNative({ transport: 'gloo' });

interface Layout {
  /** Host of each rank. */
  readonly hostOf: (rank: number, ranks: number) => number;
  readonly hierarchicalAllreduce?: boolean;
  readonly hierarchicalAllgather?: boolean;
  readonly transport?: 'tcp' | 'gloo';
}

function makeWorld({
  hostOf,
  hierarchicalAllreduce = true,
  hierarchicalAllgather = true,
  transport = 'tcp',
}: Layout): (ranks: number) => Promise<TransportWorld> {
  return async (ranks) => {
    const found = transport === 'gloo' ? gloo : native;
    if (!found.built) throw new Error(found.reason);
    const identity = { secret: JobSecret.generate(), jobId: 'conformance' };
    const all = Array.from({ length: ranks }, (_, rank) => rank);
    const listeners = await Promise.all(all.map((rank) => MeshListener.open({ ...identity, rank })));
    const hosts = new Map(all.map((rank) => [rank, hostOf(rank, ranks)]));
    // One block a host, as on real ones: what happens on one host is not seen on the other.
    const blocks = new Map([...new Set(hosts.values())].map((host) => [host, ControlBlock.create(ranks)]));
    const transports = all.map((rank) => {
      const block = blocks.get(hosts.get(rank) as number) as ControlBlock;
      block.attach(rank);
      return new HierarchicalTransport(found.addon, block, {
        rank,
        localSize: ranks,
        cma: true,
        timeoutMs: 20_000,
        stallAfterMs: 0,
        transport,
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
    return { transports, close };
  };
}

if (native.built) {
  const order = 'any';
  describeTransport('tcp, one rank a host,', makeWorld({ hostOf: (rank) => rank }), {
    order,
    members: [1, 2, 5],
  });
  describeTransport(
    'tcp, two hosts,',
    makeWorld({ hostOf: (rank, ranks) => Math.floor((2 * rank) / ranks) }),
    {
      order,
      members: [4, 5],
    },
  );
  describeTransport(
    'tcp, ranks dealt out in turn to three hosts,',
    makeWorld({ hostOf: (rank) => rank % 3 }),
    {
      order,
      members: [6],
    },
  );
  const inTurn = (rank: number) => rank % 2;
  describeTransport(
    'tcp, two hosts, allgathers flat,',
    makeWorld({ hostOf: inTurn, hierarchicalAllgather: false }),
    { order, members: [4] },
  );
  describeTransport(
    'tcp, two hosts, all but allgathers flat,',
    makeWorld({ hostOf: inTurn, hierarchicalAllreduce: false }),
    { order, members: [3] },
  );
} else {
  test('the native addon', { skip: native.reason }, () => {});
}

if (gloo.built) {
  const hostOf = (rank: number) => rank % 2;
  describeTransport('gloo, two hosts,', makeWorld({ hostOf, transport: 'gloo' }), {
    order: 'any',
    members: [4],
  });
  describeTransport('gloo, one rank a host,', makeWorld({ hostOf: (rank) => rank, transport: 'gloo' }), {
    order: 'any',
    members: [3],
  });
} else {
  test('the addon for gloo', { skip: gloo.reason }, () => {});
}
