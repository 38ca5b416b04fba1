// The portable transport for ranks of several hosts, without native code: files on a memory file system inside each
// host, authenticated connections between hosts. Groups on a single host use the plain portable transport.

import { HorovodError } from '../../errors.ts';
import type { Connection } from '../../net/connection.ts';
import { type ClusterOptions, connectMembers, hierarchyOf, isEncryptedWith } from '../group/open-members.ts';
import { connectionLost, connectionTampered } from '../group/wait-errors.ts';
import type { GroupSpec, TransportGroup } from '../transport.ts';
import { seatsOf } from './algorithms/cluster/seats.ts';
import { ClusterRounds, extraBytesFor, linkPollUs } from './cluster-rounds.ts';
import { type GroupFileSizes, mappedFiles, postBytesOf } from './group-files.ts';
import { Link } from './link.ts';
import { defaultSizes, PortableTransport, type PortableTransportOptions } from './portable-transport.ts';

export type PortableClusterTransportOptions = PortableTransportOptions & ClusterOptions;

/** A member's posts go to all other members; together they carry no more than this. */
const eagerBytesToAll = 64 * 1024;
const minEagerBytes = 1024;

export class PortableClusterTransport extends PortableTransport<PortableClusterTransportOptions> {
  get isEncrypted(): boolean {
    return this.options.isEncrypted;
  }

  override async openGroup(given: GroupSpec): Promise<TransportGroup> {
    const spec = this.openings.begin(given);
    const { members, index } = spec;
    const { rank: own, hosts, hostnames } = this.options;
    const hierarchy = hierarchyOf(spec, this.options);
    // Flat: every member counts as a separate host, so all members are connected with each other.
    const hostNumbers = members.map((rank) => (hierarchy.allreduce ? (hosts.get(rank) as number) : rank));
    const seats = seatsOf(hostNumbers, index);
    if (seats.hosts.length === 1) return super.openGroup(spec);
    const sizes = this.#sizesFor(members.length, seats.local.length);
    const opened = await this.openLocalFiles(spec, seats.local, sizes);
    const postBytes = postBytesOf(members.length, sizes);
    const files = mappedFiles(opened, seats.local.indexOf(index), sizes, {
      addressees: members.length,
      extraBytes: extraBytesFor(members.length, sizes.eagerBytes, postBytes),
    });
    let links: (Link | undefined)[];
    try {
      const connections = await connectMembers(spec, this.options, seats.remote, 'portable');
      links = linksOf(connections, (member) => isEncryptedWith(member, spec, this.options));
    } catch (error) {
      files.close();
      throw error;
    }
    const rounds = new ClusterRounds({
      seats,
      files,
      links,
      gathersByHost: hierarchy.allgather,
      describeLoss: (member, seen) => {
        const rank = members[member] as number;
        return connectionLost({ rank, hostname: hostnames.get(rank) }, own, seen);
      },
      describeTampering: (member, address) => {
        const rank = members[member] as number;
        return connectionTampered({ rank, hostname: hostnames.get(rank), address }, own);
      },
    });
    return this.admit(rounds, spec, linkPollUs * seats.remote.length);
  }

  #sizesFor(members: number, local: number): GroupFileSizes {
    const { sizes } = this.options;
    const toEach = Math.floor(eagerBytesToAll / (members - 1) / 64) * 64;
    return {
      eagerBytes: sizes?.eagerBytes ?? Math.max(minEagerBytes, toEach),
      // Nobody reads the slots of a member that is alone on its host.
      slotBytes: local === 1 ? 64 : (sizes?.slotBytes ?? defaultSizes.slotBytes),
    };
  }
}

function linksOf(
  connections: readonly (Connection | undefined)[],
  isEncrypted: (member: number) => boolean,
): (Link | undefined)[] {
  if (process.platform !== 'win32') {
    return connections.map(
      (connection, member) => connection && new Link(connection, { isEncrypted: isEncrypted(member) }),
    );
  }
  for (const connection of connections) connection?.release();
  throw new HorovodError(
    'ERR_HVD_UNSUPPORTED',
    'The portable transport does not support several hosts on Windows. ' +
      'Run the ranks on Linux or macOS (on Windows: in WSL), or all of them on one host.',
  );
}
