// Worlds in which the conformance suite tests the transport for several hosts. All ranks live in this process, and hosts are only
// names, but the connections between them are real.

import { ControlBlock } from '../../src/control/control-block.ts';
import { MeshListener } from '../../src/net/mesh/listener.ts';
import { JobSecret } from '../../src/settings/job-secret.ts';
import { HierarchicalTransport } from '../../src/transport/hierarchical/hierarchical-transport.ts';
import { loadNative } from '../../src/transport/native/load.ts';
import type { TransportWorld } from './transport-conformance.ts';

/** The addons for tcp and gloo, or why they are missing. */
export const native: ReturnType<typeof loadNative> = loadNative();
export const gloo: ReturnType<typeof loadNative> = loadNative({ transport: 'gloo' });
/** Transports between hosts do not combine members in the order of their index. */
export const order = 'any';

export interface Layout {
  /** Host of each rank. */
  readonly hostOf: (rank: number, ranks: number) => number;
  readonly hierarchicalAllreduce?: boolean;
  readonly hierarchicalAllgather?: boolean;
  readonly isEncrypted?: boolean;
  /** The addresses at which the others try to reach rank 0; its own unless given. */
  readonly reach?: (addresses: readonly string[]) => Promise<readonly string[]>;
  readonly transport?: 'tcp' | 'gloo';
}

export function makeHierarchicalWorld({
  hostOf,
  hierarchicalAllreduce = true,
  hierarchicalAllgather = true,
  isEncrypted = false,
  reach = async (addresses) => addresses,
  transport = 'tcp',
}: Layout): (ranks: number) => Promise<TransportWorld> {
  return async (ranks) => {
    const found = transport === 'gloo' ? gloo : native;
    if (!found.built) throw new Error(found.reason);
    const identity = { secret: JobSecret.generate(), jobId: 'conformance' };
    const all = Array.from({ length: ranks }, (_, rank) => rank);
    const listeners = await Promise.all(all.map((rank) => MeshListener.open({ ...identity, rank })));
    const candidates = new Map(listeners.map((listener, each) => [each, listener.candidates]));
    candidates.set(0, await reach(candidates.get(0) ?? []));
    const hosts = new Map(all.map((rank) => [rank, hostOf(rank, ranks)]));
    // One control block per host, as on real hosts: a host does not see what happens on another.
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
        candidates,
        hosts,
        hostnames: new Map(all.map((each) => [each, `host${hosts.get(each)}`])),
        generation: '1',
        hierarchicalAllreduce,
        hierarchicalAllgather,
        isEncrypted,
      });
    });
    const close = () => {
      for (const listener of listeners) listener.close();
      for (const block of blocks.values()) block.close();
    };
    const leave = (rank: number) => {
      for (const block of blocks.values()) block.leave(rank);
    };
    return { transports, leave, close };
  };
}
