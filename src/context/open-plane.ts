// Opens the plane that was decided on. Between hosts it needs the addresses of all ranks, and a watch on each host that
// tells the other hosts of deaths and failures, since their control blocks do not see them.

import type { Log } from '../diagnostics/log.ts';
import { HorovodError } from '../errors.ts';
import { loadNative } from '../native/load.ts';
import { ClusterPlane } from '../plane/cluster/cluster-plane.ts';
import type { ControlBlock } from '../plane/control-block.ts';
import { MeshListener } from '../plane/mesh/listener.ts';
import type { DataPlane } from '../plane/plane.ts';
import { PortablePlane } from '../plane/portable/portable-plane.ts';
import { ShmPlane } from '../plane/shm/shm-plane.ts';
import type { JoinedJob } from '../rendezvous/join.ts';
import type { WaitOptions } from '../rendezvous/store.ts';
import type { Settings } from '../settings/table.ts';
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
    stallAfterMs: settings.stallCheck ? settings.stallWarningMs : 0,
  };
  if (decision.plane === 'portable') return { plane: new PortablePlane(block, options), close() {} };
  const native = loadNative(settings);
  if (!native.built) throw new HorovodError('ERR_HVD_NATIVE', `rank ${job.rank}: ${native.reason}`);
  if (decision.plane === 'shm') return { plane: new ShmPlane(native.addon, block, options), close() {} };
  const listener = await MeshListener.open({ ...job, networkInterfaces: settings.networkInterfaces });
  try {
    const own: Addresses = { mesh: listener.candidates };
    const texts = await request.exchange(JSON.stringify(own));
    const addresses = texts.map((text) => JSON.parse(text) as Addresses);
    const plane = new ClusterPlane(native.addon, block, {
      ...options,
      engine: decision.plane,
      listener,
      candidates: byRank(request, (member) => addresses[member]?.mesh ?? []),
      hosts: byRank(request, (member) => hosts.hostOf[member] as number),
      hostnames: byRank(request, (member) => hosts.nameOf(member)),
      generation: request.generation,
      hierarchicalAllreduce: settings.hierarchicalAllreduce ?? true,
      hierarchicalAllgather: settings.hierarchicalAllgather ?? true,
    });
    return { plane, close: () => listener.close() };
  } catch (error) {
    listener.close();
    throw error;
  }
}

/** A table by rank of what is known by place. */
function byRank<T>({ members }: PlaneRequest, valueOf: (place: number) => T): Map<number, T> {
  return new Map(members.map((member, place) => [member, valueOf(place)]));
}
