// Opens the plane that was decided on. Between hosts it needs addresses of all ranks, and a watch on each host that
// tells the other hosts of deaths and failures, since their control blocks do not see them.

import type { Log } from '../diagnostics/log.ts';
import { loadNative } from '../native/load.ts';
import type { ControlBlock } from '../plane/control-block.ts';
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

export async function openPlane(request: PlaneRequest): Promise<OpenedPlane> {
  const { settings, job, block, hosts, place, decision } = request;
  const world = hosts.worldOf(place);
  const common = {
    rank: job.rank,
    localSize: world.localSize,
    localCores: settings.localCores,
    shmDirectory: settings.shmDirectory,
    cma: settings.cma,
    timeoutMs: settings.operationTimeoutMs,
    stallAfterMs: settings.stallCheck ? settings.stallWarningMs : 0,
  };
  if (decision.plane === 'portable' && hosts.hosts === 1) {
    return { plane: new PortablePlane(block, common), close() {} };
  }
  const native = loadNative(settings);
  if (decision.plane === 'shm' && native.built) {
    return { plane: new ShmPlane(native.addon, block, common), close() {} };
  }
  throw new Error('not yet');
}
