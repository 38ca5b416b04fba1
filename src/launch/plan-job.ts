// From options and settings to what a job is asked to do: which rank runs where, which hosts are other machines and
// how they are reached, who gets which cores and GPUs.

import { HorovodError } from '../errors.ts';
import { packageVersion } from '../settings/package.ts';
import type { LaunchOptions, Settings } from '../settings/table.ts';
import { parseHosts, readHostfile } from './hosts/host-list.ts';
import { isLocalHost } from './hosts/local-host.ts';
import { planSlots, type Slot } from './hosts/plan-slots.ts';
import type { JobRequest } from './job.ts';
import type { RemoteHostsRequest } from './open-hosts.ts';
import { CorePinning } from './spawn/pin-cores.ts';
import { planGpus } from './spawn/pin-gpus.ts';
import { parseRemoteShell } from './ssh/ssh-command.ts';

/** Of one attempt of ssh to connect: a host that is down is told before --start-timeout. */
const longestConnectMs = 10_000;

export interface HostPlan {
  readonly slots: readonly Slot[];
  /** Those of the hosts that are other machines. */
  readonly remoteNames: ReadonlySet<string>;
}

export async function planHosts(
  options: Pick<LaunchOptions, 'processes' | 'hosts' | 'hostfile'>,
  timeoutMs: number,
): Promise<HostPlan> {
  if (options.processes === undefined) throw usage('-np is missing: how many processes are to be started?');
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

/** What of a JobRequest follows from the hosts and the settings. Throws where cores or GPUs cannot be given. */
export function requestForHosts(
  { slots, remoteNames }: HostPlan,
  options: Pick<LaunchOptions, 'sshPort' | 'sshIdentityFile' | 'envAllow' | 'envDeny'>,
  settings: Settings,
  driverEnvironment: NodeJS.ProcessEnv,
  say: (text: string) => void,
): Pick<
  JobRequest,
  'slots' | 'driverEnvironment' | 'forwarding' | 'remote' | 'corePinning' | 'gpus' | 'flightDirectory' | 'say'
> {
  const localSlots = slots.filter(({ hostname }) => !remoteNames.has(hostname));
  const localSize = Math.max(0, ...localSlots.map((slot) => slot.localSize));
  const isLocal = localSize > 0;
  return {
    ...{ slots, driverEnvironment, say, flightDirectory: settings.flightDirectory },
    forwarding: { allow: options.envAllow, deny: options.envDeny },
    // Two names of this machine share its cores.
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
    ...{ names, version: packageVersion(), startTimeoutMs, silenceMs: peerTimeoutMs },
    ...{ networkInterfaces, pinCores, pinGpus },
    ssh: {
      ...{ port: options.sshPort, identityFile: options.sshIdentityFile },
      connectTimeoutMs: Math.min(startTimeoutMs, longestConnectMs),
      remoteShell: parseRemoteShell(environment['OMPI_MCA_plm_rsh_agent']),
    },
  };
}

function usage(message: string): HorovodError {
  return new HorovodError('ERR_HVD_SETTING', message);
}
