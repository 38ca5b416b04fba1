// Opens the transport that was decided on. Between hosts it needs the addresses of all ranks, and a watch on each host that
// tells the other hosts of deaths and failures, since their control blocks do not see them. Only the code of the transport
// in use is loaded: modules are a large part of what starting a rank costs.

import { existsSync } from 'node:fs';
import type { Log, LogStyle } from '../../console/log.ts';
import type { ControlBlock } from '../../control/control-block.ts';
import { waitingPeriodMs } from '../../engine/observer.ts';
import { HorovodError } from '../../errors.ts';
import { parseAddress, withoutLoopback } from '../../net/addresses.ts';
import type { Identity } from '../../net/handshake.ts';
import type { WaitOptions } from '../../net/wait.ts';
import type { JoinedJob } from '../../rendezvous/join.ts';
import { limitMpiInterfaces } from '../../settings/environment.ts';
import type { Settings } from '../../settings/table.ts';
import type {
  CrossTransportName,
  HierarchicalTransportOptions,
} from '../../transport/hierarchical/hierarchical-transport.ts';
import type { NativeAddon } from '../../transport/native/addon.ts';
import { loadNative } from '../../transport/native/load.ts';
import type { ReachableMemory } from '../../transport/native/reachable-memory.ts';
import type { Transport } from '../../transport/transport.ts';
import type { HostWatch, KeptWatch, WatchedHost, WatcherOptions } from '../host-watch/host-watch.ts';
import type { TransportDecision } from './choose-transport.ts';
import type { HostMap } from './hosts.ts';

export interface TransportRequest {
  readonly settings: Settings;
  readonly job: JoinedJob;
  readonly block: ControlBlock;
  /** By place in `members`. */
  readonly hosts: HostMap;
  /** By place: which ranks reach each other at 127.0.0.1. */
  readonly loopbacks: readonly string[];
  readonly members: readonly number[];
  readonly place: number;
  readonly decision: TransportDecision;
  /** Tells this init() from others of the job. */
  readonly generation: string;
  readonly log: Log;
  readonly wait: WaitOptions;
  /** Of a process that outlives the transport. */
  readonly memory?: ReachableMemory | undefined;
  readonly watch?: KeptWatch | undefined;
  /** Every member gives a text and gets all. */
  exchange(text: string): Promise<readonly string[]>;
}

export interface OpenedTransport {
  readonly transport: Transport;
  /** After the transport has been closed. */
  close(): void;
}

/** What a rank tells the others where several hosts take part. */
interface Addresses {
  readonly mesh: readonly string[];
  /** Only the rank that watches for its host. */
  readonly watch?: readonly string[];
}

export async function openTransport(request: TransportRequest): Promise<OpenedTransport> {
  const { settings, job, block, hosts, place, decision } = request;
  const options = {
    rank: job.rank,
    localSize: hosts.worldOf(place).localSize,
    localCores: settings.localCores,
    shmDirectory: settings.shmDirectory,
    cma: settings.cma !== '0',
    calibrates: settings.cma === 'auto',
    timeoutMs: settings.operationTimeoutMs,
    stallAfterMs: waitingPeriodMs,
    hasLauncher: settings.launcher.kind === 'horovodrun',
    memory: request.memory,
  };
  const isPortable = decision.transport === 'portable';
  if (isPortable && hosts.hosts === 1) {
    const { PortableTransport } = await import('../../transport/portable/portable-transport.ts');
    return { transport: new PortableTransport(block, options), close() {} };
  }
  const native = isPortable ? undefined : loadAddon(request);
  if (decision.transport === 'shm' && native !== undefined) {
    const { ShmTransport } = await import('../../transport/shm/shm-transport.ts');
    return { transport: new ShmTransport(native, block, options), close() {} };
  }
  const { networkInterfaces } = settings;
  const { MeshListener } = await import('../../net/mesh/listener.ts');
  const opening = openWatch(request);
  // Until it is awaited.
  opening.catch(() => undefined);
  const listener = await MeshListener.open({ ...identityOf(job), rank: job.rank, networkInterfaces });
  let watch: HostWatch | undefined;
  try {
    watch = await opening;
    const own: Addresses = {
      mesh: listener.candidates,
      ...(watch === undefined ? {} : { watch: watch.candidates }),
    };
    const texts = await request.exchange(JSON.stringify(own));
    const addresses = texts.map((text, member) => reachable(JSON.parse(text) as Addresses, request, member));
    if (decision.transport === 'mpi')
      await tellMpiItsWay(otherHosts(request).map(({ place }) => addresses[place]?.mesh ?? []));
    const clusterOptions = {
      ...options,
      listener,
      candidates: byRank(request, (member) => addresses[member]?.mesh ?? []),
      hosts: byRank(request, (member) => hosts.hostOf[member] as number),
      hostnames: byRank(request, (member) => hosts.nameOf(member)),
      generation: request.generation,
      hierarchicalAllreduce: settings.hierarchicalAllreduce ?? true,
      hierarchicalAllgather: settings.hierarchicalAllgather ?? true,
      isEncrypted: settings.encrypt,
    };
    const { signal, timeoutMs = settings.startTimeoutMs } = request.wait;
    const others = otherHosts(request).map(({ place: leader }) => addresses[leader]?.watch ?? []);
    await watch?.connect(others, { signal, timeoutMs });
    const transport = await openClusterTransport(request, clusterOptions, native);
    const opened = watch;
    const close = () => {
      opened?.stop();
      listener.close();
    };
    return { transport, close };
  } catch (error) {
    void watch?.destroy();
    listener.close();
    throw error;
  }
}

async function openClusterTransport(
  { settings, block, decision }: TransportRequest,
  options: Omit<HierarchicalTransportOptions, 'transport'>,
  native: NativeAddon | undefined,
): Promise<Transport> {
  if (native === undefined) {
    const { PortableClusterTransport } = await import(
      '../../transport/portable/portable-cluster-transport.ts'
    );
    return new PortableClusterTransport(block, options);
  }
  const { HierarchicalTransport } = await import('../../transport/hierarchical/hierarchical-transport.ts');
  return new HierarchicalTransport(native, block, {
    ...options,
    transport: decision.transport as CrossTransportName,
    isSingleThreaded: settings.mpiThreadsDisable,
  });
}

/** Loopback is left out for a rank of another machine: there, somebody else may listen at that port. */
function reachable(addresses: Addresses, { loopbacks, place }: TransportRequest, member: number): Addresses {
  if (loopbacks[member] === loopbacks[place]) return addresses;
  const { mesh, watch } = addresses;
  return { mesh: withoutLoopback(mesh), ...(watch === undefined ? {} : { watch: withoutLoopback(watch) }) };
}

/** MPI tries every interface it finds, also those that lead nowhere. `others`: the candidates of each other host. */
async function tellMpiItsWay(others: readonly (readonly string[])[]): Promise<void> {
  const { nearInterfaces } = await import('../../net/near-interfaces.ts');
  const near = nearInterfaces(others.map((list) => list.flatMap((text) => parseAddress(text)?.host ?? [])));
  if (near !== undefined) limitMpiInterfaces(near, existsSync('/sys/class/infiniband'));
}

function loadAddon({ settings, job }: TransportRequest): NativeAddon {
  const native = loadNative(settings);
  if (native.built) return native.addon;
  throw new HorovodError('ERR_HVD_NATIVE', `rank ${job.rank}: ${native.reason}`, { rank: job.rank });
}

/** The first rank of each host watches the other hosts, where there are any. */
async function openWatch(request: TransportRequest): Promise<HostWatch | undefined> {
  const { settings, job, block, hosts, members, place, generation } = request;
  const local = hosts.placesOn(hosts.hostOf[place] as number);
  if (hosts.hosts === 1 || local[0] !== place) return undefined;
  const options: WatcherOptions = {
    ...identityOf(job),
    channel: `watch/${generation}`,
    controlBlockPath: block.path,
    rank: job.rank,
    localRanks: local.map((each) => members[each] as number),
    hostname: hosts.nameOf(place),
    peers: otherHosts(request).map(({ host }) => host),
    networkInterfaces: settings.networkInterfaces,
    peerTimeoutMs: settings.peerTimeoutMs,
    logStyle: logStyleOf(settings),
    shmDirectory: settings.shmDirectory,
  };
  if (request.watch !== undefined) return request.watch.open(options);
  const { startWatch } = await import('../host-watch/host-watch.ts');
  return startWatch(options);
}

function logStyleOf({ logLevel, logFormat, logTime }: Settings): LogStyle {
  return { logLevel, logFormat, logTime };
}

/** With the place of the rank that watches for each. */
function otherHosts({ hosts, members, place }: TransportRequest): { place: number; host: WatchedHost }[] {
  const own = hosts.hostOf[place] as number;
  return hosts.names.flatMap((hostname, number) => {
    if (number === own) return [];
    const ranks = hosts.placesOn(number).map((each) => members[each] as number);
    const leader = hosts.placesOn(number)[0] as number;
    return [{ place: leader, host: { rank: ranks[0] as number, hostname, ranks } }];
  });
}

function identityOf({ secret, jobId }: JoinedJob): Identity {
  return { secret, jobId };
}

/** A table by rank of what is known by place. */
function byRank<T>({ members }: TransportRequest, at: (place: number) => T): Map<number, T> {
  return new Map(members.map((member, place) => [member, at(place)]));
}
