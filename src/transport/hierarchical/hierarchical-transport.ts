// The native transport for ranks of several hosts. Inside a host bytes go through shared memory, between hosts over
// authenticated connections, moved by one of the addon's transports: tcp, mpi or gloo. This file opens groups: it makes
// the shared segment and the connections and hands both to the addon, which does the rest on its own.

import { getSystemErrorName } from 'node:util';
import type { ControlBlock } from '../../control/control-block.ts';
import { createMemoryFile, type MemoryFile, openMemoryFile } from '../../control/memory-file.ts';
import { type ErrorCode, HorovodError } from '../../errors.ts';
import { connectMesh } from '../../net/mesh/connect.ts';
import type { MeshListener } from '../../net/mesh/listener.ts';
import type { MeshSocket } from '../../net/mesh/mesh-socket.ts';
import type { NativeAddon, NativeTransport, NativeTransportOffer } from '../native/addon.ts';
import { AddonGroup } from '../native/addon-group.ts';
import { AddonTransport, type AddonTransportOptions } from '../native/addon-transport.ts';
import type { GroupSpec, TransportGroup } from '../transport.ts';
import { type GroupLayout, layoutOf } from './lanes.ts';

export type CrossTransportName = 'tcp' | 'mpi' | 'gloo';

export interface HierarchicalTransportOptions extends AddonTransportOptions {
  readonly transport: CrossTransportName;
  readonly listener: MeshListener;
  /** Of every rank of the job, by its number. */
  readonly candidates: ReadonlyMap<number, readonly string[]>;
  readonly hosts: ReadonlyMap<number, number>;
  readonly hostnames: ReadonlyMap<number, string>;
  /** Part of the names of connections: an init() after a shutdown() makes new ones. */
  readonly generation: string;
  readonly hierarchicalAllreduce: boolean;
  readonly hierarchicalAllgather: boolean;
  /** HOROVOD_MPI_THREADS_DISABLE. */
  readonly isSingleThreaded?: boolean | undefined;
}

/** What a member says when a group is opened. */
interface Told {
  readonly segment?: string;
  readonly transport?: string;
  readonly error?: { readonly code: ErrorCode; readonly message: string };
}

/** A group on its way. */
interface Opening {
  readonly spec: GroupSpec;
  readonly layout: GroupLayout;
  readonly isShared: boolean;
  readonly connections: readonly (MeshSocket | undefined)[];
}

export class HierarchicalTransport extends AddonTransport {
  readonly name: CrossTransportName;
  readonly #options: HierarchicalTransportOptions;

  constructor(addon: NativeAddon, block: ControlBlock, options: HierarchicalTransportOptions) {
    super(addon, block, options, new Set(options.hosts.values()).size > 1);
    this.name = options.transport;
    this.#options = options;
  }

  async openGroup(spec: GroupSpec): Promise<TransportGroup> {
    const { rank, hosts, cma, timeoutMs, stallAfterMs } = this.#options;
    const { members, index } = spec;
    const hostsOf = members.map((member) => hosts.get(member) as number);
    const mode = this.#modeOf(hostsOf, spec);
    const layout = layoutOf(hostsOf, index, mode !== 0);
    const isShared = mode !== 0 && layout.local.length > 1;
    const connections = await this.#connect(spec, layout, mode === 1 || mode === 2);
    let file: MemoryFile | undefined;
    try {
      const halves = await this.#exchange({ spec, layout, isShared, connections });
      file = halves.file;
      const group = new AddonGroup(this.block, rank, spec, this.tryUpToBytes, (report, mailbox) =>
        this.addon.openClusterGroup(
          this.control,
          this.arena,
          Int32Array.from(members),
          Int32Array.from(hostsOf),
          index,
          file?.fd ?? -1,
          Int32Array.from(connections, (each) => each?.takeDescriptor() ?? -1),
          Int32Array.from(connections, (each) => (each?.accepted === true ? 1 : 0)),
          mode,
          halves.transport,
          this.spins,
          timeoutMs,
          stallAfterMs,
          report,
          mailbox,
        ),
      );
      group.describeLoss = (culprit, errno) => this.#lossOf(culprit, errno);
      await this.admit(group, spec);
      if (isShared) group.probe(cma);
      return group;
    } finally {
      for (const connection of connections) connection?.release();
      // All have mapped it, or the group does not come about.
      file?.close();
    }
  }

  override close(): void {
    super.close();
    // Its library would wait for processes that are gone.
    if (this.block.failure() !== undefined) this.addon.closeTransports?.(false);
  }

  /** As openClusterGroup() takes it. Hierarchical where it makes a difference: several hosts, with more than one member on some. */
  #modeOf(hosts: readonly number[], { hierarchy }: GroupSpec): number {
    const hierarchicalAllreduce = hierarchy?.allreduce ?? this.#options.hierarchicalAllreduce;
    const hierarchicalAllgather = hierarchy?.allgather ?? this.#options.hierarchicalAllgather;
    const count = new Set(hosts).size;
    if (count === 1 || count === hosts.length) return 0;
    // An transport of its own connects lanes or all members, not both.
    if (this.name !== 'tcp') return hierarchicalAllreduce ? 3 : 0;
    return (hierarchicalAllreduce ? 1 : 0) + (hierarchicalAllgather ? 2 : 0);
  }

  /** With the members of the own lane; `andAll`: and, in a second list behind the first, with all. */
  async #connect(
    spec: GroupSpec,
    { lane }: GroupLayout,
    andAll: boolean,
  ): Promise<(MeshSocket | undefined)[]> {
    const { listener, generation, candidates, hostnames } = this.#options;
    const { members, index, signal, timeoutMs } = spec;
    const connect = (channel: string, peers: readonly number[]) =>
      connectMesh({
        ...{ listener, channel, ranks: members, index, signal, timeoutMs },
        peers: peers.filter((member) => member !== index),
        candidates: members.map((member) => candidates.get(member) ?? []),
        hostnames: members.map((member) => hostnames.get(member) ?? '?'),
      });
    const all = members.map((_, member) => member);
    const channel = `${generation}/${spec.id}/${members.join(',')}`;
    const lists = await Promise.all([
      connect(channel, lane),
      ...(andAll ? [connect(`${channel}/flat`, all)] : []),
    ]);
    return lists.flat();
  }

  /** The segment of this host's members, made by the first of them, and the transport of the own lane. */
  async #exchange(
    opening: Opening,
  ): Promise<{ file: MemoryFile | undefined; transport: 'tcp' | NativeTransport }> {
    const { spec, layout, isShared } = opening;
    const { local, lane } = layout;
    let own: MemoryFile | undefined;
    let offer: NativeTransportOffer | undefined;
    let told: Told = {};
    let failure: unknown;
    try {
      if (isShared && local[0] === spec.index) {
        own = createMemoryFile(this.addon.bytesPerMember * local.length, {
          directory: this.#options.shmDirectory,
          label: 'the shared segment of a process set',
        });
        told = { segment: own.path };
      }
      const offered = await this.#offerTransport(opening);
      offer = offered?.[0];
      if (offered !== undefined) told = { ...told, transport: offered[1] };
    } catch (error) {
      // The others wait for an answer; an error is one.
      const known = HorovodError.is(error) ? error : this.#transportError(String(error));
      told = { error: { code: known.code, message: known.detail } };
      failure = known;
    }
    const texts = await spec.exchange(JSON.stringify(told));
    if (failure !== undefined) throw failure;
    const all = texts.map((text) => JSON.parse(text) as Told);
    for (const [member, { error }] of all.entries()) {
      const rank = spec.members[member] as number;
      if (error !== undefined) throw new HorovodError(error.code, `rank ${rank}: ${error.message}`, { rank });
    }
    const path = all[local[0] as number]?.segment;
    const file = own ?? (isShared && path !== undefined ? openMemoryFile(path) : undefined);
    try {
      const transportTexts = lane.map((member) => all[member]?.transport ?? '');
      const transport =
        offer === undefined || lane.length === 0
          ? 'tcp'
          : await this.#openTransport(offer, transportTexts, spec);
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
  }: Opening): Promise<[NativeTransportOffer, string] | undefined> {
    // MPI has to be started by all of its processes, also by those without a lane.
    const takesPart = lane.length > 1 || (this.name === 'mpi' && lane.length === 0);
    if (this.name === 'tcp' || !takesPart) return undefined;
    const { timeoutMs } = spec;
    const place = lane.indexOf(spec.index);
    const offered = await this.addon.offerTransport?.(
      this.control,
      lane.length,
      place,
      this.#ownAddress(spec, connections),
      timeoutMs,
      this.#options.isSingleThreaded ?? false,
    );
    if (typeof offered !== 'object') throw this.#transportError(offered);
    closeEnginesAtExit(this.addon);
    return offered;
  }

  async #openTransport(
    offer: NativeTransportOffer,
    texts: readonly string[],
    spec: GroupSpec,
  ): Promise<NativeTransport> {
    const transport = await this.addon.openTransport?.(offer, texts, spec.timeoutMs);
    if (typeof transport !== 'object') throw this.#transportError(transport);
    return transport;
  }

  #transportError(reason: string | undefined): HorovodError {
    const { rank } = this.#options;
    const why = reason ?? 'its addon was not loaded';
    return new HorovodError('ERR_HVD_NATIVE', `rank ${rank}: the ${this.name} transport: ${why}`, { rank });
  }

  /** An address of this host that another one has reached; of the same host only where there is no other. */
  #ownAddress(spec: GroupSpec, connections: readonly (MeshSocket | undefined)[]): string {
    const { hosts, rank } = this.#options;
    const remote = connections.find(
      (each, i) => each !== undefined && hosts.get(spec.members[i] as number) !== hosts.get(rank),
    );
    const socket = (remote ?? connections.find((each) => each !== undefined))?.socket;
    return (socket?.localAddress ?? '127.0.0.1').replace(/^::ffff:/, '');
  }

  #lossOf(rank: number, errno: number): HorovodError {
    const host = this.#options.hostnames.get(rank) ?? '?';
    const seen = errno === 0 ? 'was closed from there' : `broke (${getSystemErrorName(-errno)})`;
    return new HorovodError(
      'ERR_HVD_PEER_LOST',
      `rank ${rank} on ${host} is gone: its connection with rank ${this.#options.rank} ${seen}. ` +
        'Its process or its machine has died, or the network between the hosts is cut.',
      { rank },
    );
  }
}

/**
 * MPI is to be told that a process ends well, or its mpirun calls it a crash. It is not told at shutdown(), because it could not
 * be started again. Once for a process: whoever comes later finds the listener of the first.
 */
function closeEnginesAtExit(addon: NativeAddon): void {
  if (process.listeners('exit').some(({ name }) => name === 'closeTransports')) return;
  process.once('exit', function closeTransports(code) {
    addon.closeTransports?.(code === 0);
  });
}
