// Turns options and settings into a job request: which rank runs where, which hosts are other machines and how to reach
// them, and which cores and GPUs each rank gets.

import { packageVersion } from '../settings/package.ts';
import { settingError } from '../settings/setting.ts';
import type { LaunchOptions, Settings } from '../settings/table.ts';
import { parseHosts, readHostfile } from './hosts/host-list.ts';
import { isLocalHost } from './hosts/local-host.ts';
import { planSlots, type Slot } from './hosts/plan-slots.ts';
import type { JobRequest } from './job.ts';
import type { RemoteHostsRequest } from './open-hosts.ts';
import { CorePinning } from './spawn/pin-cores.ts';
import { planGpus } from './spawn/pin-gpus.ts';
import { parseRemoteShell } from './ssh/ssh-command.ts';

/** For one attempt of ssh to connect, so that a host that is down is reported before --start-timeout. */
const maxConnectMs = 10_000;

export interface HostPlan {
  readonly slots: readonly Slot[];
  /** Those of the hosts that are other machines. */
  readonly remoteNames: ReadonlySet<string>;
}

export async function planHosts(
  options: Pick<LaunchOptions, 'processes' | 'hosts' | 'hostfile'>,
  timeoutMs: number,
): Promise<HostPlan> {
  if (options.processes === undefined) throw settingError('-np (the number of processes) is missing.');
  const hosts =
    options.hosts !== undefined
      ? parseHosts(options.hosts)
      : options.hostfile !== undefined
        ? readHostfile(options.hostfile)
        : [{ name: 'localhost', slots: options.processes }];
  const slots = planSlots(options.processes, hosts);
  const names = [...new Set(slots.map(({ hostname }) => hostname))];
  const areLocal = await Promise.all(names.map((name) => isLocalHost(name, timeoutMs)));
  return { slots, remoteNames: new Set(names.filter((_, index) => !areLocal[index])) };
}

/** How the output of each rank is marked. */
export function prefixOf({
  prefixOutput,
  prefixTimestamp,
}: Pick<LaunchOptions, 'prefixOutput' | 'prefixTimestamp'>): JobRequest['prefix'] {
  if (!prefixOutput) return 'none';
  return prefixTimestamp ? 'rank and time' : 'rank';
}

interface HostsContext {
  readonly plan: HostPlan;
  readonly options: Pick<LaunchOptions, 'sshPort' | 'sshIdentityFile' | 'envAllow' | 'envDeny'>;
  readonly settings: Settings;
  readonly driverEnvironment: NodeJS.ProcessEnv;
  readonly say: (text: string) => void;
}

/** The part of a JobRequest that follows from the hosts and the settings. Throws if cores or GPUs cannot be assigned. */
export function requestForHosts({
  plan,
  options,
  settings,
  driverEnvironment,
  say,
}: HostsContext): Pick<
  JobRequest,
  'slots' | 'driverEnvironment' | 'forwarding' | 'remote' | 'corePinning' | 'gpus' | 'flightDirectory' | 'say'
> {
  const { slots, remoteNames } = plan;
  const localSlots = slots.filter(({ hostname }) => !remoteNames.has(hostname));
  const localSize = Math.max(0, ...localSlots.map((slot) => slot.localSize));
  const isLocal = localSize > 0;
  return {
    slots,
    driverEnvironment,
    say,
    flightDirectory: settings.flightDirectory,
    forwarding: { allow: options.envAllow, deny: options.envDeny },
    // If -H has two names for this machine, they share its cores.
    corePinning: isLocal && settings.pinCores ? new CorePinning(localSlots.length, say) : undefined,
    gpus:
      isLocal && settings.pinGpus
        ? planGpus(driverEnvironment['CUDA_VISIBLE_DEVICES'], localSize)
        : undefined,
    remote:
      remoteNames.size === 0 ? undefined : remoteHosts(remoteNames, options, settings, driverEnvironment),
  };
}

function remoteHosts(
  names: ReadonlySet<string>,
  options: Pick<LaunchOptions, 'sshPort' | 'sshIdentityFile'>,
  settings: Settings,
  environment: NodeJS.ProcessEnv,
): RemoteHostsRequest {
  const { startTimeoutMs, peerTimeoutMs, networkInterfaces, pinCores, pinGpus } = settings;
  return {
    names,
    version: packageVersion(),
    startTimeoutMs,
    silenceMs: peerTimeoutMs,
    networkInterfaces,
    pinCores,
    pinGpus,
    ssh: {
      port: options.sshPort,
      identityFile: options.sshIdentityFile,
      connectTimeoutMs: Math.min(startTimeoutMs, maxConnectMs),
      remoteShell: parseRemoteShell(environment['OMPI_MCA_plm_rsh_agent']),
    },
  };
}
