// Planes of several "hosts" in this process: a control block for each host, a listener for each rank, and connections
// over the loopback interface.

import { ControlBlock } from '../plane/control-block.ts';
import { MeshListener } from '../plane/mesh/listener.ts';
import type { GroupFileSizes } from '../plane/portable/group-files.ts';
import { PortableClusterPlane } from '../plane/portable/portable-cluster-plane.ts';
import { JobSecret } from '../rendezvous/job-secret.ts';
import type { MakeWorld } from './plane-world.ts';

export interface ClusterWorldOptions {
  hostOf(rank: number): number;
  readonly isHierarchical?: boolean;
  readonly sizes?: GroupFileSizes;
}

export function makeClusterWorld(options: ClusterWorldOptions): MakeWorld {
  return async (size) => {
    const ranks = Array.from({ length: size }, (_, rank) => rank);
    const hosts = new Map(ranks.map((rank) => [rank, options.hostOf(rank)]));
    const blocks = new Map([...new Set(hosts.values())].map((host) => [host, ControlBlock.create(size)]));
    const identity = { secret: JobSecret.generate(), jobId: 'a job of one process' };
    const listeners = await Promise.all(ranks.map((rank) => MeshListener.open({ ...identity, rank })));
    const isHierarchical = options.isHierarchical ?? true;
    const planes = ranks.map((rank) => {
      const control = blocks.get(options.hostOf(rank)) as ControlBlock;
      control.attach(rank);
      return new PortableClusterPlane(control, {
        rank,
        localSize: size,
        listener: listeners[rank] as MeshListener,
        candidates: new Map(listeners.map((listener) => [listener.rank, listener.candidates])),
        hosts,
        hostnames: new Map(ranks.map((each) => [each, `host${options.hostOf(each)}`])),
        generation: 'first',
        hierarchicalAllreduce: isHierarchical,
        hierarchicalAllgather: isHierarchical,
        sizes: options.sizes,
      });
    });
    return {
      planes,
      close() {
        for (const listener of listeners) listener.close();
        for (const block of blocks.values()) block.close();
      },
    };
  };
}
