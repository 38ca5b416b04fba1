// Opens the plane that was decided on. Between hosts it needs the addresses of all ranks, and a watch on each host that
// tells the other hosts of deaths and failures, since their control blocks do not see them.

import { existsSync } from 'node:fs';
import type { Log } from '../diagnostics/log.ts';
import { HorovodError } from '../errors.ts';
import type { NativeAddon } from '../native/addon.ts';
import { loadNative } from '../native/load.ts';
import { ClusterPlane, type EngineName } from '../plane/cluster/cluster-plane.ts';
import type { ControlBlock } from '../plane/control-block.ts';
import { MeshListener } from '../plane/mesh/listener.ts';
import type { DataPlane } from '../plane/plane.ts';
import { PortableClusterPlane } from '../plane/portable/portable-cluster-plane.ts';
import { PortablePlane } from '../plane/portable/portable-plane.ts';
import { ShmPlane } from '../plane/shm/shm-plane.ts';
import { parseAddress } from '../rendezvous/addresses.ts';
import type { Identity } from '../rendezvous/handshake.ts';
import type { JoinedJob } from '../rendezvous/join.ts';
import { nearInterfaces } from '../rendezvous/near-interfaces.ts';
import type { WaitOptions } from '../rendezvous/store.ts';
import { limitMpiInterfaces } from '../settings/environment.ts';
import type { Settings } from '../settings/table.ts';
import { statusPeriodMs } from '../status/status-writer.ts';
import { type HostWatch, startWatch, type WatchedHost } from '../watch/host-watch.ts';
import type { PlaneDecision } from './choose-plane.ts';
import type { HostMap } from './hosts.ts';

export interface PlaneRequest {
  readonly settings: Settings;
  readonly job: JoinedJob;
  readonly block: ControlBlock;
  /** By place in `members`. */
  readonly hosts: HostMap;
  readonly members: readonly number[];
  readonly place: number;
  readonly decision: PlaneDecision;
  /** Tells this init() from others of the job. */
  readonly generation: string;
  readonly log: Log;
  readonly wait: WaitOptions;
  /** Every member gives a text and gets all. */
  exchange(text: string): Promise<readonly string[]>;
}

export interface OpenedPlane {
  readonly plane: DataPlane;
  /** After the plane has been closed. */
  close(): void;
}

/** What a rank tells the others where several hosts take part. */
interface Addresses {
  readonly mesh: readonly string[];
  /** Only the rank that watches for its host. */
  readonly watch?: readonly string[];
}

export async function openPlane(request: PlaneRequest): Promise<OpenedPlane> {
  const { settings, job, block, hosts, place, decision } = request;
  const options = {
    rank: job.rank,
    localSize: hosts.worldOf(place).localSize,
    localCores: settings.localCores,
    shmDirectory: settings.shmDirectory,
    cma: settings.cma,
    timeoutMs: settings.operationTimeoutMs,
    stallAfterMs: statusPeriodMs,
  };
  const isPortable = decision.plane === 'portable';
  if (isPortable && hosts.hosts === 1) return { plane: new PortablePlane(block, options), close() {} };
  const native = isPortable ? undefined : loadAddon(request);
  if (decision.plane === 'shm' && native !== undefined) {
    return { plane: new ShmPlane(native, block, options), close() {} };
  }
  const { networkInterfaces } = settings;
  const listener = await MeshListener.open({ ...identityOf(job), rank: job.rank, networkInterfaces });
  let watch: HostWatch | undefined;
  try {
    watch = await openWatch(request);
    const own: Addresses = {
      mesh: listener.candidates,
      ...(watch === undefined ? {} : { watch: watch.candidates }),
    };
    const texts = await request.exchange(JSON.stringify(own));
    const addresses = texts.map((text) => JSON.parse(text) as Addresses);
    if (decision.plane === 'mpi')
      tellMpiItsWay(otherHosts(request).map(({ place }) => addresses[place]?.mesh ?? []));
    const clusterOptions = {
      ...options,
      listener,
      candidates: byRank(request, (member) => addresses[member]?.mesh ?? []),
      hosts: byRank(request, (member) => hosts.hostOf[member] as number),
      hostnames: byRank(request, (member) => hosts.nameOf(member)),
      generation: request.generation,
      hierarchicalAllreduce: settings.hierarchicalAllreduce ?? true,
      hierarchicalAllgather: settings.hierarchicalAllgather ?? true,
    };
    const { signal, timeoutMs = settings.startTimeoutMs } = request.wait;
    const others = otherHosts(request).map(({ place: leader }) => addresses[leader]?.watch ?? []);
    await watch?.connect(others, { signal, timeoutMs });
    const plane =
      native === undefined
        ? new PortableClusterPlane(block, clusterOptions)
        : new ClusterPlane(native, block, {
            ...clusterOptions,
            engine: decision.plane as EngineName,
            isSingleThreaded: settings.mpiThreadsDisable,
          });
    const opened = watch;
    const close = () => {
      opened?.stop();
      listener.close();
    };
    return { plane, close };
  } catch (error) {
    void watch?.destroy();
    listener.close();
    throw error;
  }
}

/** MPI tries every interface it finds, also those that lead nowhere. `others`: the candidates of each other host. */
function tellMpiItsWay(others: readonly (readonly string[])[]): void {
  const near = nearInterfaces(others.map((list) => list.flatMap((text) => parseAddress(text)?.host ?? [])));
  if (near !== undefined) limitMpiInterfaces(near, existsSync('/sys/class/infiniband'));
}

function loadAddon({ settings, job }: PlaneRequest): NativeAddon {
  const native = loadNative(settings);
  if (native.built) return native.addon;
  throw new HorovodError('ERR_HVD_NATIVE', `rank ${job.rank}: ${native.reason}`, { rank: job.rank });
}

/** The first rank of each host watches the other hosts, where there are any. */
async function openWatch(request: PlaneRequest): Promise<HostWatch | undefined> {
  const { settings, job, block, hosts, members, place, generation } = request;
  const local = hosts.placesOn(hosts.hostOf[place] as number);
  if (hosts.hosts === 1 || local[0] !== place) return undefined;
  return startWatch({
    ...identityOf(job),
    channel: `watch/${generation}`,
    controlBlockPath: block.path,
    rank: job.rank,
    localRanks: local.map((each) => members[each] as number),
    hostname: hosts.nameOf(place),
    peers: otherHosts(request).map(({ host }) => host),
    networkInterfaces: settings.networkInterfaces,
    peerTimeoutMs: settings.peerTimeoutMs,
    shmDirectory: settings.shmDirectory,
  });
}

/** With the place of the rank that watches for each. */
function otherHosts({ hosts, members, place }: PlaneRequest): { place: number; host: WatchedHost }[] {
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
function byRank<T>({ members }: PlaneRequest, at: (place: number) => T): Map<number, T> {
  return new Map(members.map((member, place) => [member, at(place)]));
}
