// Worlds for the conformance suite on the transport for several hosts: all ranks live in this process, on hosts that are only
// names; the connections between them are real.

import { ControlBlock } from '../../src/control/control-block.ts';
import { MeshListener } from '../../src/net/mesh/listener.ts';
import { JobSecret } from '../../src/settings/job-secret.ts';
import { HierarchicalTransport } from '../../src/transport/hierarchical/hierarchical-transport.ts';
import { loadNative } from '../../src/transport/native/load.ts';
import type { TransportWorld } from './transport-conformance.ts';

/** The addons for tcp and gloo, or why they are missing. */
export const native: ReturnType<typeof loadNative> = loadNative();
export const gloo: ReturnType<typeof loadNative> = loadNative({ transport: 'gloo' });
/** Transports between hosts combine members in another order than by their index. */
export const order = 'any';

export interface Layout {
  /** Host of each rank. */
  readonly hostOf: (rank: number, ranks: number) => number;
  readonly hierarchicalAllreduce?: boolean;
  readonly hierarchicalAllgather?: boolean;
  readonly transport?: 'tcp' | 'gloo';
}

export function makeHierarchicalWorld({
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
        timeoutMs: 60_000,
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
