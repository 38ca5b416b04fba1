// Prepares hosts to start ranks: this machine directly, other machines through an agent each (ssh/open-agents.ts, loaded only if
// there are any), or through the agents that have dialed back from there (places/). The hosts of a job are opened at the same time; if some cannot be used, all of them are reported together and
// nothing is started anywhere. An elastic job opens each host by itself.

import type { TcpStoreServer } from '../rendezvous/store/tcp-store-server.ts';
import { forwardedEnvironment } from '../settings/environment.ts';
import type { JobSecret } from '../settings/job-secret.ts';
import { resolveCommand } from './command.ts';
import type { Slot } from './hosts/plan-slots.ts';
import { type JobRequest, nodeOf } from './job-request.ts';
import type { HostRanks } from './ranks/host-ranks.ts';
import { LocalRanks } from './ranks/local-ranks.ts';
import type { ProcessWatchOptions } from './ranks/process-watch.ts';
import type { Guardian } from './spawn/guardian.ts';
import type { HostProblem } from './ssh/host-problem.ts';
import type { StartClock } from './start-clock.ts';

export interface HostsRequest extends Omit<JobRequest, 'slots' | 'clock'> {
  readonly secret: JobSecret;
  readonly jobId: string;
  readonly graceMs: number;
  readonly guardian: Guardian;
  readonly server: TcpStoreServer;
  /** Of an elastic job. */
  readonly watch?: ProcessWatchOptions | undefined;
}

/** A host that is ready, and the slots of the job there. */
export interface OpenHost {
  readonly ranks: HostRanks;
  readonly slots: readonly Slot[];
}

/** In the order of their ranks. */
export async function openHosts(
  request: HostsRequest & { readonly slots: readonly Slot[]; readonly clock: StartClock },
): Promise<OpenHost[]> {
  const groups = slotsByHost(request.slots);
  const others = [...groups].filter(([name]) => request.remote?.names.has(name));
  const remote = others.length === 0 ? new Map<string, HostRanks>() : await openOthers(request, others);
  let place = 0;
  return [...groups].map(([name, slots]) => {
    const ranks = remote.get(name);
    if (ranks !== undefined) return { slots, ranks };
    const firstPlace = place;
    place += slots.length;
    return { slots, ranks: localRanks(request, name, firstPlace) };
  });
}

/** One host of an elastic job. `onLost` is called when the connection to it breaks, before its ranks end. */
export async function openHost(
  request: HostsRequest,
  name: string,
  slotCount: number,
  onLost: (why: string) => void,
): Promise<HostRanks | HostProblem> {
  if (!request.remote?.names.has(name)) return localRanks(request, name);
  const { places } = request.remote;
  if (places !== undefined) return places.open(request, name, slotCount);
  return (await openAgents()).openRemoteHost(request, name, slotCount, onLost);
}

async function openOthers(
  request: HostsRequest & { readonly clock: StartClock },
  hosts: readonly (readonly [name: string, slots: readonly Slot[]])[],
): Promise<Map<string, HostRanks>> {
  const places = request.remote?.places;
  if (places === undefined) return (await openAgents()).openRemoteHosts(request, hosts);
  return new Map(hosts.map(([name, slots]) => [name, places.open(request, name, slots.length)]));
}

function openAgents(): Promise<typeof import('./ssh/open-agents.ts')> {
  return import('./ssh/open-agents.ts');
}

function slotsByHost(slots: readonly Slot[]): Map<string, Slot[]> {
  const groups = new Map<string, Slot[]>();
  for (const slot of slots) groups.set(slot.hostname, [...(groups.get(slot.hostname) ?? []), slot]);
  return groups;
}

function localRanks(request: HostsRequest, hostname: string, firstPlace = 0): LocalRanks {
  const { command, server, driverEnvironment, forwarding } = request;
  return new LocalRanks({
    ...request,
    hostname,
    firstPlace,
    rendezvousAddress: server.address,
    driverEnvironment: forwardedEnvironment(driverEnvironment, forwarding),
    command: resolveCommand(command, nodeOf(request)),
    warn: (text) => request.say(`${hostname}: ${text}`),
  });
}
