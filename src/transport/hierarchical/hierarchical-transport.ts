// The native transport for ranks of several hosts. Inside a host bytes go through shared memory; between hosts they go over
// authenticated connections, moved by one of the addon's cross transports: tcp, mpi or gloo. This file opens groups: it
// creates the shared segment and the connections and hands both to the addon, which does the rest.

import { getSystemErrorName } from 'node:util';
import type { ControlBlock } from '../../control/control-block.ts';
import type { MemoryFile } from '../../control/memory-file.ts';
import { HorovodError } from '../../errors.ts';
import type { Connection } from '../../net/connection.ts';
import {
  type ClusterOptions,
  checkWanted,
  connectMembers,
  exchangePrepared,
  hierarchyOf,
  isEncryptedWith,
} from '../group/open-members.ts';
import { connectionLost, connectionTampered } from '../group/wait-errors.ts';
import type {
  NativeAddon,
  NativeCancellation,
  NativeCrossTransport,
  NativeCrossTransportOffer,
} from '../native/addon.ts';
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
  readonly spec: GroupSpec & { readonly signal: AbortSignal };
  readonly layout: GroupLayout;
  readonly isShared: boolean;
  readonly connections: readonly (Connection | undefined)[];
}

export class HierarchicalTransport extends AddonTransport<HierarchicalTransportOptions> {
  readonly name: CrossTransportName;
  readonly isEncrypted: boolean;

  constructor(addon: NativeAddon, block: ControlBlock, options: HierarchicalTransportOptions) {
    const hasSeveralHosts = new Set(options.hosts.values()).size > 1;
    super(addon, block, options, hasSeveralHosts);
    this.name = options.transport;
    this.isEncrypted = options.isEncrypted && hasSeveralHosts;
  }

  async openGroup(given: GroupSpec): Promise<TransportGroup> {
    const spec = this.beginOpening(given);
    const { rank, hosts, hostnames } = this.options;
    const { members, index } = spec;
    const hostsOf = members.map((member) => hosts.get(member) as number);
    const hierarchy = this.#hierarchyFor(hostsOf, spec);
    const isFlat = !hierarchy.allreduce && !hierarchy.allgather;
    const layout = layoutOf(hostsOf, index, !isFlat);
    const isShared = !isFlat && layout.local.length > 1;
    const connections = await this.#connect(spec, layout, hierarchy);
    let file: MemoryFile | undefined;
    try {
      checkWanted(spec);
      const parts = await this.#openParts({ spec, layout, isShared, connections });
      file = parts.file;
      const group = this.createGroup(spec, file, (options) =>
        this.addon.openClusterGroup({
          ...options,
          hosts: Int32Array.from(hostsOf),
          sockets: Int32Array.from(connections, (each) => each?.takeDescriptor() ?? -1),
          accepted: Int32Array.from(connections, (each) => (each?.accepted === true ? 1 : 0)),
          keys: connections.map((each, i) => {
            if (each === undefined || !isEncryptedWith(i % members.length, spec, this.options))
              return undefined;
            const { send, receive } = each.keysFor('tensors');
            return Buffer.concat([send, receive]);
          }),
          hierarchicalAllreduce: hierarchy.allreduce,
          hierarchicalAllgather: hierarchy.allgather,
          transport: parts.transport,
        }),
      );
      group.describeLoss = (lost, errno) => {
        const seen = errno === 0 ? 'was closed by the other side' : `broke (${getSystemErrorName(-errno)})`;
        return connectionLost({ rank: lost, hostname: hostnames.get(lost) }, rank, seen);
      };
      group.describeTampering = (peer) => {
        const at = members.indexOf(peer);
        // Where there are two, for operations of a lane and flat ones: both lead to the same host.
        const connection = connections[at] ?? connections[at + members.length];
        const address = connection?.address ?? '?';
        return connectionTampered({ rank: peer, hostname: hostnames.get(peer), address }, rank);
      };
      await this.admit(group, spec);
      if (isShared) await this.explore(group, spec);
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
    const lanes = await connectMembers(spec, this.options, lane, 'lane');
    if (hierarchy.allreduce === hierarchy.allgather) return lanes;
    const all = spec.members.map((_, member) => member);
    try {
      return [...lanes, ...(await connectMembers(spec, this.options, all, 'flat'))];
    } catch (error) {
      for (const connection of lanes) connection?.release();
      throw error;
    }
  }

  /** The segment of this host's members, created by the first of them, and the cross transport of this member's lane. */
  async #openParts(
    opening: Opening,
  ): Promise<{ file: MemoryFile | undefined; transport: 'tcp' | NativeCrossTransport }> {
    const { signal } = opening.spec;
    // What other threads wait for ends with the opening.
    const cancellation = this.addon.newCancellation?.();
    const cancel = () => cancellation && this.addon.cancel?.(cancellation);
    signal.addEventListener('abort', cancel, { once: true });
    try {
      return await this.#openCancellable(opening, cancellation);
    } catch (error) {
      checkWanted(opening.spec);
      throw error;
    } finally {
      signal.removeEventListener('abort', cancel);
    }
  }

  async #openCancellable(
    opening: Opening,
    cancellation: NativeCancellation | undefined,
  ): Promise<{ file: MemoryFile | undefined; transport: 'tcp' | NativeCrossTransport }> {
    const { spec, layout, isShared } = opening;
    const { local, lane } = layout;
    const isFirst = local[0] === spec.index;
    let file: MemoryFile | undefined;
    let offer: NativeCrossTransportOffer | undefined;
    try {
      const all = await exchangePrepared(spec, async (): Promise<Prepared> => {
        this.#checkCanEncrypt();
        if (isShared && isFirst) file = this.createSegment(local.length);
        const offered = await this.#offerTransport(opening, cancellation);
        offer = offered?.[0];
        return { segment: file?.path, transport: offered?.[1] };
      });
      const [first] = local as [number];
      if (isShared)
        file ??= this.openSegment(all[first]?.segment ?? '', local.length, spec.members[first] as number);
      if (offer === undefined || lane.length === 0) return { file, transport: 'tcp' };
      const texts = lane.map((member) => all[member]?.transport ?? '');
      const transport = await this.addon.openCrossTransport?.(offer, texts, spec.timeoutMs);
      if (typeof transport !== 'object') throw this.#transportError(transport);
      checkWanted(spec);
      return { file, transport };
    } catch (error) {
      file?.close();
      throw error;
    }
  }

  #checkCanEncrypt(): void {
    const { rank, isEncrypted } = this.options;
    const lack = this.addon.encryptionLack;
    if (!isEncrypted || lack === '') return;
    throw new HorovodError(
      'ERR_HVD_UNSUPPORTED',
      `rank ${rank}: --encrypt needs OpenSSL's libcrypto in the Node process, and this Node does not export it ` +
        `(${lack} is missing). Use a Node from nodejs.org or your distribution, or --transport portable.`,
      { rank },
    );
  }

  async #offerTransport(
    { spec, layout: { lane }, connections }: Opening,
    cancellation: NativeCancellation | undefined,
  ): Promise<[NativeCrossTransportOffer, string] | undefined> {
    // MPI must be started by all of its processes, also by those without a lane.
    const takesPart = lane.length > 1 || (this.name === 'mpi' && lane.length === 0);
    if (this.name === 'tcp' || !takesPart || cancellation === undefined) return undefined;
    const offered = await this.addon.offerCrossTransport?.({
      control: this.control,
      size: lane.length,
      index: lane.indexOf(spec.index),
      address: this.#ownAddress(spec, connections),
      timeoutMs: spec.timeoutMs,
      isSingleThreaded: this.options.isSingleThreaded ?? false,
      cancellation,
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
