// The native plane for ranks of several hosts. Inside a host bytes go through shared memory, between hosts over
// authenticated connections, moved by one of the addon's engines: tcp, mpi or gloo. This file opens groups: it makes
// the shared segment and the connections and hands both to the addon, which does the rest on its own.

import { getSystemErrorName } from 'node:util';
import { HorovodError, type HorovodErrorCode } from '../../errors.ts';
import type { NativeAddon, NativeEngine, NativeEngineOffer } from '../../native/addon.ts';
import type { ControlBlock } from '../control-block.ts';
import { createMemoryFile, type MemoryFile, openMemoryFile } from '../memory-file.ts';
import { connectMesh } from '../mesh/connect.ts';
import type { MeshListener } from '../mesh/listener.ts';
import { AddonGroup } from '../native/addon-group.ts';
import { AddonPlane, type AddonPlaneOptions } from '../native/addon-plane.ts';
import type { GroupSpec, PlaneGroup } from '../plane.ts';
import { engineAddress } from './engine-address.ts';
import { type GroupLayout, layoutOf } from './lanes.ts';

export type EngineName = 'tcp' | 'mpi' | 'gloo';

export interface ClusterPlaneOptions extends AddonPlaneOptions {
  readonly engine: EngineName;
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
  readonly engine?: string;
  readonly error?: string;
  readonly code?: HorovodErrorCode;
}

export class ClusterPlane extends AddonPlane {
  readonly name: EngineName;
  readonly #options: ClusterPlaneOptions;

  constructor(addon: NativeAddon, block: ControlBlock, options: ClusterPlaneOptions) {
    super(addon, block, options, new Set(options.hosts.values()).size > 1);
    this.name = options.engine;
    this.#options = options;
  }

  async openGroup(spec: GroupSpec): Promise<PlaneGroup> {
    const { rank, hosts, hostnames, cma, timeoutMs, stallAfterMs } = this.#options;
    const { members, index } = spec;
    const hostsOf = members.map((member) => hosts.get(member) as number);
    const mode = this.#modeOf(hostsOf);
    const layout = layoutOf(hostsOf, index, mode === hierarchicalMode);
    const { local, peers } = layout;
    const isShared = mode !== 0 && local.length > 1;
    const { file, engine } = await this.#exchange(spec, layout, isShared);
    try {
      const connections = await connectMesh({
        listener: this.#options.listener,
        channel: `${this.#options.generation}/${spec.id}`,
        ranks: members,
        index,
        peers,
        candidates: members.map((member) => this.#options.candidates.get(member) ?? []),
        hostnames: members.map((member) => hostnames.get(member) ?? '?'),
        signal: spec.signal,
        timeoutMs: spec.timeoutMs,
      });
      let group: AddonGroup;
      try {
        group = new AddonGroup(this.block, rank, spec, this.tryUpToBytes, (report, mailbox) =>
          this.addon.openClusterGroup(
            this.control,
            this.arena,
            Int32Array.from(members),
            Int32Array.from(hostsOf),
            index,
            file?.fd ?? -1,
            Int32Array.from(members, (_, i) => connections[i]?.takeDescriptor() ?? -1),
            Int32Array.from(members, (_, i) => (connections[i]?.accepted === true ? 1 : 0)),
            mode,
            engine,
            this.spins,
            timeoutMs,
            stallAfterMs,
            report,
            mailbox,
          ),
        );
      } finally {
        for (const connection of connections) connection?.release();
      }
      group.describeLoss = (culprit, errno) => this.#lossOf(culprit, errno);
      await this.admit(group, spec);
      if (isShared) group.probe(cma);
      return group;
    } finally {
      // All have mapped it, or the group does not come about.
      file?.close();
    }
  }

  /** Bit 0: hierarchical but for allgather; bit 1: allgather too. 0: flat, all over the engine. */
  #modeOf(hosts: readonly number[]): number {
    const { hierarchicalAllreduce, hierarchicalAllgather } = this.#options;
    const isOnePerHost = new Set(hosts).size === hosts.length;
    if (isOnePerHost || new Set(hosts).size === 1) return 0;
    return (hierarchicalAllreduce ? 1 : 0) + (hierarchicalAllgather ? 2 : 0);
  }

  /** The segment of this host's members, made by the first of them, and the engine. */
  async #exchange(
    spec: GroupSpec,
    layout: GroupLayout,
    isShared: boolean,
  ): Promise<{ file: MemoryFile | undefined; engine: 'tcp' | NativeEngine }> {
    const { local } = layout;
    const isFirst = local[0] === spec.index;
    let own: MemoryFile | undefined;
    let told: Told = {};
    let failure: unknown;
    let offer: NativeEngineOffer | undefined;
    try {
      const offered = await this.#offerEngine(spec, layout);
      if (offered !== undefined) {
        offer = offered[0];
        told = { engine: offered[1] };
      }
      if (isShared && isFirst) {
        own = createMemoryFile(this.addon.bytesPerMember * local.length, {
          directory: this.#options.shmDirectory,
          label: 'the shared segment of a process set',
        });
        told = { ...told, segment: own.path };
      }
    } catch (error) {
      // The others wait for an answer; an error is one.
      const code = HorovodError.is(error) ? error.code : 'ERR_HVD_SHARED_MEMORY';
      told = { error: (error as Error).message, code };
      failure = error;
    }
    const texts = await spec.exchange(JSON.stringify(told));
    if (failure !== undefined) throw failure;
    const all = texts.map((text) => JSON.parse(text) as Told);
    const broken = all.findIndex(({ error }) => error !== undefined);
    if (broken >= 0) {
      const { error, code = 'ERR_HVD_SHARED_MEMORY' } = all[broken] as Told;
      throw new HorovodError(code, `rank ${spec.members[broken]}: ${error}`);
    }
    const path = all[local[0] as number]?.segment;
    const file = own ?? (isShared && path !== undefined ? openMemoryFile(path) : undefined);
    const texts1 = layout.lane.map((member) => all[member]?.engine ?? '');
    try {
      return { file, engine: offer === undefined ? 'tcp' : await this.#openEngine(spec, offer, texts1) };
    } catch (error) {
      file?.close();
      throw error;
    }
  }

  /** Undefined where none is needed: tcp is the addon's own, and nobody else takes part. */
  async #offerEngine(
    { members, timeoutMs }: GroupSpec,
    { lane }: GroupLayout,
  ): Promise<[NativeEngineOffer, string] | undefined> {
    const { engine, rank, candidates, hosts, isSingleThreaded } = this.#options;
    // MPI has to be started by all of its processes, also by those without a lane.
    if (engine === 'tcp' || members.length === 1 || (engine === 'gloo' && lane.length === 0)) return undefined;
    const index = lane.findIndex((member) => members[member] === rank);
    const others = [...candidates].filter(([other]) => hosts.get(other) !== hosts.get(rank)).map(([, list]) => list);
    const address = engineAddress(candidates.get(rank) ?? [], others);
    const offered = await this.addon.offerEngine?.(
      this.control,
      lane.length,
      index,
      address,
      timeoutMs,
      isSingleThreaded ?? false,
    );
    if (typeof offered === 'object') return offered;
    throw this.#engineError(offered);
  }

  async #openEngine(
    { timeoutMs }: GroupSpec,
    offer: NativeEngineOffer,
    texts: readonly string[],
  ): Promise<'tcp' | NativeEngine> {
    if (texts.length === 0) return 'tcp';
    const opened = await this.addon.openEngine?.(offer, texts, timeoutMs);
    if (typeof opened === 'object') return opened;
    throw this.#engineError(opened);
  }

  #engineError(reason = 'the addon that was loaded has no such engine'): HorovodError {
    const { engine, rank, hostnames } = this.#options;
    const where = `rank ${rank} on ${hostnames.get(rank) ?? '?'}`;
    return new HorovodError('ERR_HVD_NATIVE', `${where}: ${engine} cannot be used: ${reason}`, { rank });
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

const hierarchicalMode = 3;
