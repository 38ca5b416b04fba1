// The portable transport for ranks of several hosts, without any native code: files of a memory file system inside each
// host, authenticated connections between them. Groups on one host alone are the plain portable transport's.

import type { ControlBlock } from '../../control/control-block.ts';
import { defaultMemoryDirectory, type MemoryFile } from '../../control/memory-file.ts';
import { HorovodError } from '../../errors.ts';
import { connectMesh } from '../../net/mesh/connect.ts';
import type { MeshListener } from '../../net/mesh/listener.ts';
import type { MeshSocket } from '../../net/mesh/mesh-socket.ts';
import type { GroupSpec, TransportGroup } from '../transport.ts';
import { seatsOf } from './algorithms/cluster/seats.ts';
import { ClusterRounds, extraBytesFor, linkQuestionUs } from './cluster-rounds.ts';
import {
  createGroupFiles,
  type GroupFileSizes,
  GroupFiles,
  openGroupFiles,
  postBytesOf,
} from './group-files.ts';
import { Link } from './link.ts';
import { defaultSizes, PortableTransport, type PortableTransportOptions } from './portable-transport.ts';

export interface PortableClusterTransportOptions extends PortableTransportOptions {
  readonly listener: MeshListener;
  /** Of every rank of the job, by its number. */
  readonly candidates: ReadonlyMap<number, readonly string[]>;
  readonly hosts: ReadonlyMap<number, number>;
  readonly hostnames: ReadonlyMap<number, string>;
  /** Part of the names of connections: an init() after a shutdown() makes new ones. */
  readonly generation: string;
  /** False: all members are connected with each other, those of one host too. */
  readonly hierarchicalAllreduce: boolean;
  readonly hierarchicalAllgather: boolean;
}

/** Posts go to all members; together they carry no more than this. */
const eagerBytesToAll = 64 * 1024;
const leastEagerBytes = 1024;

export class PortableClusterTransport extends PortableTransport {
  readonly #options: PortableClusterTransportOptions;

  constructor(control: ControlBlock, options: PortableClusterTransportOptions) {
    super(control, options);
    this.#options = options;
  }

  override async openGroup(spec: GroupSpec): Promise<TransportGroup> {
    const { members, index } = spec;
    const { hosts, hostnames, candidates } = this.#options;
    const hierarchicalAllreduce = spec.hierarchy?.allreduce ?? this.#options.hierarchicalAllreduce;
    const hierarchicalAllgather = spec.hierarchy?.allgather ?? this.#options.hierarchicalAllgather;
    const hostNumbers = members.map((rank) => (hierarchicalAllreduce ? (hosts.get(rank) as number) : rank));
    const seats = seatsOf(hostNumbers, index);
    if (seats.hosts.length === 1) return super.openGroup(spec);
    const sizes = this.#sizesFor(members.length, seats.local.length);
    const opened = await this.#openLocalFiles(spec, seats.local, sizes);
    const postBytes = postBytesOf(members.length, sizes);
    const files = new GroupFiles(opened, seats.local.indexOf(index), sizes, {
      addressees: members.length,
      extraBytes: extraBytesFor(members.length, sizes.eagerBytes, postBytes),
    });
    let links: (Link | undefined)[];
    try {
      const connections = await connectMesh({
        listener: this.#options.listener,
        channel: `portable/${this.#options.generation}/${spec.id}/${members.join(',')}`,
        ranks: members,
        index,
        peers: seats.remote,
        candidates: members.map((rank) => candidates.get(rank) ?? []),
        hostnames: members.map((rank) => hostnames.get(rank) ?? '?'),
        signal: spec.signal,
        timeoutMs: spec.timeoutMs,
      });
      links = linksOf(connections);
    } catch (error) {
      files.close();
      throw error;
    }
    const rounds = new ClusterRounds({
      ...{ seats, files, links },
      gathersByHost: hierarchicalAllgather,
      describeLoss: (member, seen) => this.#lossOf(members[member] as number, seen),
    });
    return this.admit(rounds, spec, linkQuestionUs * seats.remote.length);
  }

  #sizesFor(members: number, local: number): GroupFileSizes {
    const { sizes } = this.#options;
    const toEach = Math.floor(eagerBytesToAll / (members - 1) / 64) * 64;
    return {
      eagerBytes: sizes?.eagerBytes ?? Math.max(leastEagerBytes, toEach),
      // Nobody looks into the slots of a member that is alone on its host.
      slotBytes: local === 1 ? 64 : (sizes?.slotBytes ?? defaultSizes.slotBytes),
    };
  }

  /** The first member of each host makes the files of all members there. */
  async #openLocalFiles(
    spec: GroupSpec,
    local: readonly number[],
    sizes: GroupFileSizes,
  ): Promise<MemoryFile[]> {
    const [first] = local as [number];
    let made: MemoryFile[] | undefined;
    let told: { paths?: string[]; error?: string } = {};
    let failure: unknown;
    try {
      if (first === spec.index) {
        const directory = this.#options.shmDirectory ?? defaultMemoryDirectory();
        made = createGroupFiles(local.length, sizes, directory, spec.members.length);
        told = { paths: made.map(({ path }) => path) };
      }
    } catch (error) {
      // The others wait for an answer; an error is one.
      failure = error;
      told = { error: (error as Error).message };
    }
    try {
      const texts = await spec.exchange(JSON.stringify(told));
      if (failure !== undefined) throw failure;
      const all = texts.map((text) => JSON.parse(text) as typeof told);
      const broken = all.findIndex(({ error }) => error !== undefined);
      if (broken >= 0) {
        const text = `rank ${spec.members[broken]}: ${all[broken]?.error}`;
        throw new HorovodError('ERR_HVD_SHARED_MEMORY', text, { rank: spec.members[broken] });
      }
      return made ?? openGroupFiles(all[first]?.paths ?? []);
    } catch (error) {
      for (const file of made ?? []) file.close();
      throw error;
    }
  }

  #lossOf(rank: number, seen: string): HorovodError {
    const host = this.#options.hostnames.get(rank) ?? '?';
    return new HorovodError(
      'ERR_HVD_PEER_LOST',
      `rank ${rank} on ${host} is gone: its connection with rank ${this.#options.rank} ${seen}. ` +
        'Its process or its machine has died, or the network between the hosts is cut.',
      { rank },
    );
  }
}

function linksOf(connections: readonly (MeshSocket | undefined)[]): (Link | undefined)[] {
  if (process.platform !== 'win32') {
    return connections.map((connection) => connection && new Link(connection));
  }
  for (const connection of connections) connection?.release();
  throw new HorovodError(
    'ERR_HVD_UNSUPPORTED',
    'the portable transport reads connections between hosts by their descriptors, and Windows has none. ' +
      'Run ranks of several hosts on Linux or macOS (on Windows: in WSL), or all ranks on one host.',
  );
}
