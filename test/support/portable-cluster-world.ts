// Transports of several "hosts" in this process: a control block for each host, a listener for each rank, and connections
// over the loopback interface.

import { ControlBlock } from '../../src/control/control-block.ts';
import { MeshListener } from '../../src/net/mesh/listener.ts';
import { JobSecret } from '../../src/settings/job-secret.ts';
import type { GroupFileSizes } from '../../src/transport/portable/group-files.ts';
import { PortableClusterTransport } from '../../src/transport/portable/portable-cluster-transport.ts';
import type { MakeWorld } from './transport-world.ts';

export interface ClusterWorldOptions {
  hostOf(rank: number): number;
  readonly isHierarchical?: boolean;
  readonly isEncrypted?: boolean;
  /** The addresses at which the others try to reach rank 0; its own unless given. */
  readonly reach?: (addresses: readonly string[]) => Promise<readonly string[]>;
  readonly sizes?: GroupFileSizes;
}

export function makeClusterWorld(options: ClusterWorldOptions): MakeWorld {
  return async (size) => {
    const ranks = Array.from({ length: size }, (_, rank) => rank);
    const hosts = new Map(ranks.map((rank) => [rank, options.hostOf(rank)]));
    const blocks = new Map([...new Set(hosts.values())].map((host) => [host, ControlBlock.create(size)]));
    const identity = { secret: JobSecret.generate(), jobId: 'a job of one process' };
    const listeners = await Promise.all(ranks.map((rank) => MeshListener.open({ ...identity, rank })));
    const candidates = new Map(listeners.map((listener) => [listener.rank, listener.candidates]));
    candidates.set(0, (await options.reach?.(candidates.get(0) ?? [])) ?? candidates.get(0) ?? []);
    const isHierarchical = options.isHierarchical ?? true;
    const transports = ranks.map((rank) => {
      const control = blocks.get(options.hostOf(rank)) as ControlBlock;
      control.attach(rank);
      return new PortableClusterTransport(control, {
        rank,
        localSize: size,
        listener: listeners[rank] as MeshListener,
        candidates,
        hosts,
        hostnames: new Map(ranks.map((each) => [each, `host${options.hostOf(each)}`])),
        generation: 'first',
        hierarchicalAllreduce: isHierarchical,
        hierarchicalAllgather: isHierarchical,
        isEncrypted: options.isEncrypted ?? false,
        sizes: options.sizes,
      });
    });
    return {
      transports,
      leave(rank) {
        for (const block of blocks.values()) block.leave(rank);
      },
      close() {
        for (const listener of listeners) listener.close();
        for (const block of blocks.values()) block.close();
      },
    };
  };
}
