// From the flags of an elastic job to its request: limits, hosts, and what cannot be combined.

import { listLocalAddresses } from '../../net/addresses.ts';
import type { Limits } from '../../rendezvous/driver/driver-state.ts';
import type { PlanHost } from '../../rendezvous/driver/plan.ts';
import { settingError } from '../../settings/setting.ts';
import { slurmAllocation } from '../../settings/slurm-allocation.ts';
import { type LaunchOptions, type Settings, settingsTable } from '../../settings/table.ts';
import { isLocalHost } from '../hosts/local-host.ts';
import {
  forwardingRules,
  type GivenPlaces,
  type Launch,
  listedHosts,
  outputOf,
  reach,
} from '../job-request.ts';
import { CorePinning } from '../spawn/pin-cores.ts';
import { functionFinder, HostDiscovery, scriptFinder } from './discovery.ts';
import type { ElasticRequest } from './elastic-job.ts';
import { fixedHosts, type HostSource } from './host-source.ts';

/** Until silence counts as the loss of a host; other jobs fail with that and wait longer. */
const peerTimeoutMs = 5000;

export type ElasticLaunch = Omit<Launch, 'plan'> & {
  /** Asks a function instead of a script. */
  readonly discover?: (() => Promise<readonly PlanHost[]>) | undefined;
};

/** Throws ERR_HVD_SETTING for limits that contradict each other. */
export function elasticLimits(
  settings: Settings,
  { processes }: Pick<LaunchOptions, 'processes'>,
): Limits & { readonly hangTimeoutMs: number } {
  const { minProcesses, maxProcesses: max, spares, elasticTimeoutMs, resetLimit, cooldown } = settings;
  const np = processes ?? minProcesses;
  if (np === undefined) throw settingError('-np (the number of processes to start with) is missing.');
  const min = minProcesses ?? np;
  if (max !== undefined && min > max) throw settingError(`--min-np ${min} is more than --max-np ${max}.`);
  if (np < min) throw settingError(`-np ${np} is less than --min-np ${min}.`);
  if (max !== undefined && np > max) throw settingError(`-np ${np} is more than --max-np ${max}.`);
  return {
    np,
    min,
    max,
    spares,
    elasticTimeoutMs,
    readyTimeoutMs: Math.max(elasticTimeoutMs, settings.startTimeoutMs),
    resetLimit,
    cooldown,
    collectTimeoutMs: settings.operationTimeoutMs,
    stoppedTimeoutMs: settings.stoppedTimeoutMs,
    hangTimeoutMs: settings.hangTimeoutMs,
  };
}

export async function elasticRequest(launch: ElasticLaunch): Promise<ElasticRequest> {
  const { command, options, environment, driverEnvironment, clock, say } = launch;
  const { hangTimeoutMs, ...limits } = elasticLimits(launch.settings, options);
  const { hosts, remoteNames } = await findHosts(launch, limits);
  const { settings, variables } = adapted(launch.settings, say);
  listLocalAddresses(settings.networkInterfaces);
  // Throws here, and not when the first host is opened, if it cannot be done.
  if (settings.pinCores) new CorePinning(1, () => undefined);
  return {
    ...outputOf(launch as Launch),
    node: launch.node,
    limits,
    hangTimeoutMs,
    hosts,
    command,
    environment: { ...environment, ...variables },
    driverEnvironment,
    clock,
    terminalColumns: launch.terminalColumns,
    flightDirectory: settings.flightDirectory,
    forwarding: forwardingRules(options),
    isEncrypted: settings.encrypt && remoteNames !== undefined,
    pinning: { cores: settings.pinCores, gpus: settings.pinGpus },
    remote:
      remoteNames === undefined
        ? undefined
        : { names: remoteNames, settings, ...reach({ ...launch, settings } as Launch) },
  };
}

/** What elastic jobs do differently with settings that other jobs have too. */
function adapted(
  given: Settings,
  say: (text: string) => void,
): { settings: Settings; variables: Record<string, string> } {
  if (given.transport === 'mpi') {
    throw settingError(
      'elastic training does not work with --mpi: MPI ends the whole job with its first lost rank. Use --transport tcp, the ' +
        'default between hosts.',
    );
  }
  const variables: Record<string, string> = {};
  let settings = given;
  if (given.transport === 'gloo') {
    say(
      'libgloo cannot replace a lost rank, so this elastic job uses --transport tcp between hosts instead.',
    );
    variables[settingsTable.transport.env as string] = 'tcp';
    settings = { ...settings, transport: 'tcp' };
  }
  if (!given.given.has('peerTimeoutMs')) {
    variables[settingsTable.peerTimeoutMs.env as string] = String(peerTimeoutMs / 1000);
    settings = { ...settings, peerTimeoutMs };
  }
  return { settings, variables };
}

/** `remoteNames`: undefined if all hosts are this machine. It is filled as hosts are found. */
async function findHosts(
  { options, settings, say, discover, driverEnvironment, places }: ElasticLaunch,
  { np, max, spares }: Limits,
): Promise<{ hosts: HostSource; remoteNames: Set<string> | undefined }> {
  if (places !== undefined) return hostsOfPlaces(places);
  const { hostDiscoveryScript, startTimeoutMs, slotsPerHost } = settings;
  const listed = listedHosts(options);
  if (hostDiscoveryScript !== undefined && listed !== undefined)
    throw settingError('--host-discovery-script cannot be used together with -H or --hostfile.');
  if (discover !== undefined && listed !== undefined)
    throw settingError('discover cannot be used together with hosts or a hostfile.');
  if (hostDiscoveryScript !== undefined || discover !== undefined) {
    const find =
      discover === undefined
        ? scriptFinder(hostDiscoveryScript ?? '', slotsPerHost)
        : functionFinder(discover);
    const remoteNames = new Set<string>();
    const known = new Set<string>();
    const onFound = async (found: readonly PlanHost[]) => {
      // Each name is looked up once: the list comes every second.
      const unknown = found.filter(({ name }) => !known.has(name));
      await Promise.all(
        unknown.map(async ({ name }) => {
          if (!(await isLocalHost(name, startTimeoutMs))) remoteNames.add(name);
          known.add(name);
        }),
      );
    };
    return { hosts: new HostDiscovery({ find, onFound, say }), remoteNames };
  }
  const hosts = listed ??
    slurmAllocation(driverEnvironment) ?? [{ name: 'localhost', slots: (max ?? np) + spares }];
  const slots = hosts.reduce((sum, host) => sum + host.slots, 0);
  if (np > slots)
    throw settingError(
      `-np ${np} is more than the ${slots} slots on ${hosts.map((host) => `${host.name}:${host.slots}`).join(', ')}.`,
    );
  const areLocal = await Promise.all(hosts.map(({ name }) => isLocalHost(name, startTimeoutMs)));
  const others = hosts.filter((_, index) => !areLocal[index]).map(({ name }) => name);
  return { hosts: fixedHosts(hosts), remoteNames: others.length === 0 ? undefined : new Set(others) };
}

/** Machines come and go with their places. */
function hostsOfPlaces(places: GivenPlaces): { hosts: HostSource; remoteNames: Set<string> } {
  const remoteNames = new Set<string>();
  let isStopped = false;
  const hosts: HostSource = {
    async start(onHosts) {
      const tell = () => {
        for (const { name } of places.hosts) remoteNames.add(name);
        if (!isStopped) onHosts(places.hosts);
      };
      places.onChange(tell);
      tell();
    },
    stop() {
      isStopped = true;
    },
  };
  return { hosts, remoteNames };
}
