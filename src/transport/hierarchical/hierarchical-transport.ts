// The native transport for ranks of several hosts. Inside a host bytes go through shared memory; between hosts they go over
// authenticated connections, moved by one of the addon's cross transports: tcp, mpi or gloo. This file opens groups: it
// creates the shared segment and the connections and hands both to the addon, which does the rest.

import { getSystemErrorName } from 'node:util';
import type { ControlBlock } from '../../control/control-block.ts';
import { type MemoryFile, openMemoryFile } from '../../control/memory-file.ts';
import { HorovodError } from '../../errors.ts';
import type { Connection } from '../../net/connection.ts';
import { type ClusterOptions, connectMembers, exchangePrepared, hierarchyOf } from '../group/open-members.ts';
import { connectionLost } from '../group/wait-errors.ts';
import type { NativeAddon, NativeCrossTransport, NativeCrossTransportOffer } from '../native/addon.ts';
import { AddonTransport, type AddonTransportOptions } from '../native/addon-transport.ts';
import type { GroupSpec, Hierarchy, TransportGroup } from '../transport.ts';
import { type GroupLayout, layoutOf } from './lanes.ts';

export type CrossTransportName = 'tcp' | 'mpi' | 'gloo';

export interface HierarchicalTransportOptions extends AddonTransportOptions, ClusterOptions {
  readonly transport: CrossTransportName;
  /** HOROVOD_MPI_THREADS_DISABLE. */
  readonly isSingleThreaded?: boolean | undefined;
}

/** What a member tells the others when a group opens. */
interface Prepared {
  /** The path of the host's segment, from its first member. */
  readonly segment?: string | undefined;
  /** The text of its offer to the cross transport. */
  readonly transport?: string | undefined;
}

/** A group that is being opened. */
interface Opening {
  readonly spec: GroupSpec;
  readonly layout: GroupLayout;
  readonly isShared: boolean;
  readonly connections: readonly (Connection | undefined)[];
}

export class HierarchicalTransport extends AddonTransport<HierarchicalTransportOptions> {
  readonly name: CrossTransportName;

  constructor(addon: NativeAddon, block: ControlBlock, options: HierarchicalTransportOptions) {
    super(addon, block, options, new Set(options.hosts.values()).size > 1);
    this.name = options.transport;
  }

  async openGroup(spec: GroupSpec): Promise<TransportGroup> {
    const { rank, hosts, hostnames, cma } = this.options;
    const { members, index } = spec;
    const hostsOf = members.map((member) => hosts.get(member) as number);
    const hierarchy = this.#hierarchyFor(hostsOf, spec);
    const isFlat = !hierarchy.allreduce && !hierarchy.allgather;
    const layout = layoutOf(hostsOf, index, !isFlat);
    const isShared = !isFlat && layout.local.length > 1;
    const connections = await this.#connect(spec, layout, hierarchy);
    let file: MemoryFile | undefined;
    try {
      const parts = await this.#openParts({ spec, layout, isShared, connections });
      file = parts.file;
      const group = this.createGroup(spec, file, (options) =>
        this.addon.openClusterGroup({
          ...options,
          hosts: Int32Array.from(hostsOf),
          sockets: Int32Array.from(connections, (each) => each?.takeDescriptor() ?? -1),
          accepted: Int32Array.from(connections, (each) => (each?.accepted === true ? 1 : 0)),
          hierarchicalAllreduce: hierarchy.allreduce,
          hierarchicalAllgather: hierarchy.allgather,
          transport: parts.transport,
        }),
      );
      group.describeLoss = (lost, errno) => {
        const seen = errno === 0 ? 'was closed by the other side' : `broke (${getSystemErrorName(-errno)})`;
        return connectionLost({ rank: lost, hostname: hostnames.get(lost) }, rank, seen);
      };
      await this.admit(group, spec);
      if (isShared) group.probe(cma);
      return group;
    } finally {
      for (const connection of connections) connection?.release();
      // By now all members have mapped it, or the group has not opened.
      file?.close();
    }
  }

  override close(): void {
    super.close();
    // Its library would wait for processes that are gone.
    if (this.block.failure() !== undefined) this.addon.closeCrossTransports?.(false);
  }

  /** Flat where hierarchy makes no difference: on one host, and with one member on each host. */
  #hierarchyFor(hosts: readonly number[], spec: GroupSpec): Hierarchy {
    const count = new Set(hosts).size;
    if (count === 1 || count === hosts.length) return { allreduce: false, allgather: false };
    const hierarchy = hierarchyOf(spec, this.options);
    // mpi and gloo connect either the lanes or all members, not both.
    return this.name === 'tcp'
      ? hierarchy
      : { allreduce: hierarchy.allreduce, allgather: hierarchy.allreduce };
  }

  /** Connections within this member's lane. If only some operations are flat, connections with all members follow. */
  async #connect(
    spec: GroupSpec,
    { lane }: GroupLayout,
    hierarchy: Hierarchy,
  ): Promise<(Connection | undefined)[]> {
    const all = spec.members.map((_, member) => member);
    const lists = await Promise.all([
      connectMembers(spec, this.options, lane, 'lane'),
      hierarchy.allreduce === hierarchy.allgather ? [] : connectMembers(spec, this.options, all, 'flat'),
    ]);
    return lists.flat();
  }

  /** The segment of this host's members, created by the first of them, and the cross transport of this member's lane. */
  async #openParts(
    opening: Opening,
  ): Promise<{ file: MemoryFile | undefined; transport: 'tcp' | NativeCrossTransport }> {
    const { spec, layout, isShared } = opening;
    const { local, lane } = layout;
    const isFirst = local[0] === spec.index;
    let file: MemoryFile | undefined;
    let offer: NativeCrossTransportOffer | undefined;
    try {
      const all = await exchangePrepared(spec, async (): Promise<Prepared> => {
        if (isShared && isFirst) file = this.createSegment(local.length);
        const offered = await this.#offerTransport(opening);
        offer = offered?.[0];
        return { segment: file?.path, transport: offered?.[1] };
      });
      if (isShared) file ??= openMemoryFile(all[local[0] as number]?.segment ?? '');
      if (offer === undefined || lane.length === 0) return { file, transport: 'tcp' };
      const texts = lane.map((member) => all[member]?.transport ?? '');
      const transport = await this.addon.openCrossTransport?.(offer, texts, spec.timeoutMs);
      if (typeof transport !== 'object') throw this.#transportError(transport);
      return { file, transport };
    } catch (error) {
      file?.close();
      throw error;
    }
  }

  async #offerTransport({
    spec,
    layout: { lane },
    connections,
  }: Opening): Promise<[NativeCrossTransportOffer, string] | undefined> {
    // MPI must be started by all of its processes, also by those without a lane.
    const takesPart = lane.length > 1 || (this.name === 'mpi' && lane.length === 0);
    if (this.name === 'tcp' || !takesPart) return undefined;
    const offered = await this.addon.offerCrossTransport?.({
      control: this.control,
      size: lane.length,
      index: lane.indexOf(spec.index),
      address: this.#ownAddress(spec, connections),
      timeoutMs: spec.timeoutMs,
      isSingleThreaded: this.options.isSingleThreaded ?? false,
    });
    if (typeof offered !== 'object') throw this.#transportError(offered);
    closeCrossTransportsAtExit(this.addon);
    return offered;
  }

  #transportError(reason = 'its addon was not loaded'): HorovodError {
    const { rank } = this.options;
    return new HorovodError(
      'ERR_HVD_NATIVE',
      `rank ${rank}: the ${this.name} transport did not open: ${reason}`,
      { rank },
    );
  }

  /** An address of this host that another host has reached; one that a rank of this host has reached if there is no other. */
  #ownAddress(spec: GroupSpec, connections: readonly (Connection | undefined)[]): string {
    const { hosts, rank } = this.options;
    const remote = connections.find(
      (each, i) => each !== undefined && hosts.get(spec.members[i] as number) !== hosts.get(rank),
    );
    const socket = (remote ?? connections.find((each) => each !== undefined))?.socket;
    return (socket?.localAddress ?? '127.0.0.1').replace(/^::ffff:/, '');
  }
}

/**
 * MPI must be told that a process ends well, or its mpirun reports a crash. This cannot happen at shutdown(), because MPI
 * cannot be started twice. Once per process: later callers find the listener of the first.
 */
function closeCrossTransportsAtExit(addon: NativeAddon): void {
  if (process.listeners('exit').some(({ name }) => name === 'closeCrossTransports')) return;
  process.once('exit', function closeCrossTransports(code) {
    addon.closeCrossTransports?.(code === 0);
  });
}
