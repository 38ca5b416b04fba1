// A launch is what horovodrun or run() was asked to do. This file turns it into a job request: which rank runs where, which
// hosts are other machines and how to reach them, and which cores and GPUs each rank gets.

import { listLocalAddresses } from '../net/addresses.ts';
import type { Identity } from '../net/handshake.ts';
import type { PlanHost } from '../rendezvous/driver/plan.ts';
import type { ForwardingRules } from '../settings/environment.ts';
import { planGpus } from '../settings/gpus.ts';
import { settingError } from '../settings/setting.ts';
import { slurmAllocation } from '../settings/slurm-allocation.ts';
import type { LaunchOptions, Settings } from '../settings/table.ts';
import { parseHosts, readHostfile } from './hosts/host-list.ts';
import { isLocalHost } from './hosts/local-host.ts';
import { planSlots, type Slot } from './hosts/plan-slots.ts';
import type { HostsRequest } from './open-hosts.ts';
import type { ConsoleWriter } from './output/console-writer.ts';
import type { OutputLine } from './output/line-reader.ts';
import type { RankOutputOptions } from './output/rank-output.ts';
import type { HostRanks } from './ranks/host-ranks.ts';
import { CorePinning } from './spawn/pin-cores.ts';
import { parseRemoteShell, type SshOptions } from './ssh/ssh-command.ts';
import type { StartClock } from './start-clock.ts';

export interface Launch {
  readonly plan: HostPlan;
  /** As the user gave it. Each host runs a script with its own Node. */
  readonly command: readonly string[];
  readonly options: LaunchOptions;
  readonly settings: Settings;
  /** Variables that the flags and the config file set. */
  readonly environment: Readonly<Record<string, string>>;
  readonly driverEnvironment: NodeJS.ProcessEnv;
  readonly stdout: ConsoleWriter;
  readonly stderr: ConsoleWriter;
  /** The width of the terminal that `stdout` is; undefined: it is none. */
  readonly terminalColumns?: number | undefined;
  /** Prints a message of the launcher, one or more lines. */
  readonly say: (text: string) => void;
  /** Gets each line that a rank prints. */
  readonly onLine?: ((line: OutputLine) => void) | undefined;
  /** The Node that runs scripts. Default: this process. */
  readonly node?: NodeProgram | undefined;
  /** Runs since the start of horovodrun; for --verbose. */
  readonly clock?: StartClock | undefined;
  /** The ranks run in places that a cluster manager has given to the job. */
  readonly places?: GivenPlaces | undefined;
}

/**
 * Places for ranks that a cluster manager (Spark, Ray) has given to a job. In each of them runs an agent, which has dialed back to the
 * launcher. places/agent-places.ts is what implements it.
 */
export interface GivenPlaces {
  /** Of the job: the agents have proven it. */
  readonly identity: Identity;
  /** The machines on which there are places now, that of the lowest place first. */
  readonly hosts: readonly PlanHost[];
  /** The ranks of a machine. An elastic job may ask for it again. */
  open(request: HostsRequest, host: string, slotCount: number): HostRanks;
  /** Calls back when `hosts` has changed, for elastic jobs. */
  onChange(callback: () => void): void;
  /** What the cluster manager says about places that were lost, for the failure report. Waits for it a moment. */
  explainLoss(): Promise<string | undefined>;
  /** Called when the job is over, or could not be started: ends the agents, and whatever has given the places. */
  close(): Promise<void>;
}

export interface NodeProgram {
  readonly execPath: string;
  readonly execArgv: readonly string[];
}

export interface HostPlan {
  readonly slots: readonly Slot[];
  /** The hosts that are other machines. */
  readonly remoteNames: ReadonlySet<string>;
}

/** Where the output of the ranks and the messages of the launcher go. */
export interface JobOutput extends Pick<Launch, 'stdout' | 'stderr' | 'say' | 'onLine'> {
  readonly prefix: RankOutputOptions['prefix'];
  readonly outputDirectory: string | undefined;
  /** Prints a message for --verbose. */
  readonly explain: (text: string) => void;
}

export interface JobRequest
  extends JobOutput,
    Pick<Launch, 'command' | 'node' | 'driverEnvironment' | 'environment' | 'clock' | 'terminalColumns'> {
  readonly slots: readonly Slot[];
  /** Which variables of `driverEnvironment` go to the ranks. */
  readonly forwarding?: ForwardingRules | undefined;
  /** HOROVOD_ENCRYPT, and there are several hosts. */
  readonly isEncrypted?: boolean | undefined;
  /** Of this machine. */
  readonly corePinning?: CorePinning | undefined;
  /** CUDA_VISIBLE_DEVICES for each local rank of this machine. */
  readonly gpus?: readonly string[] | undefined;
  /** Undefined: no host is another machine. */
  readonly remote?: RemoteHosts | undefined;
  /** Between the first signal and SIGKILL. */
  readonly graceMs?: number;
  /** A rank that fails does not end the others. */
  readonly keepGoing?: boolean | undefined;
  /** HOROVOD_FLIGHT_DIR. */
  readonly flightDirectory?: string | undefined;
}

export interface RemoteHosts {
  readonly names: ReadonlySet<string>;
  /** How they are reached: by ssh, or over agents that have dialed back. */
  readonly ssh?: SshOptions | undefined;
  readonly places?: GivenPlaces | undefined;
  readonly settings: Pick<
    Settings,
    'startTimeoutMs' | 'peerTimeoutMs' | 'networkInterfaces' | 'pinCores' | 'pinGpus'
  >;
}

/** For one attempt of ssh to connect, so that a host that is down is reported before --start-timeout. */
const maxConnectMs = 10_000;

export async function planHosts(
  options: Pick<LaunchOptions, 'processes' | 'hosts' | 'hostfile'>,
  timeoutMs: number,
  environment: NodeJS.ProcessEnv = {},
): Promise<HostPlan> {
  const { processes } = options;
  if (processes === undefined) throw settingError('-np (the number of processes) is missing.');
  const slots = planSlots(
    processes,
    listedHosts(options) ?? slurmAllocation(environment) ?? [{ name: 'localhost', slots: processes }],
  );
  const names = [...new Set(slots.map(({ hostname }) => hostname))];
  const areLocal = await Promise.all(names.map((name) => isLocalHost(name, timeoutMs)));
  return { slots, remoteNames: new Set(names.filter((_, index) => !areLocal[index])) };
}

/** Undefined if neither a list nor a file is given. */
export function listedHosts({
  hosts,
  hostfile,
}: {
  readonly hosts?: string | undefined;
  readonly hostfile?: string | undefined;
}): ReturnType<typeof parseHosts> | undefined {
  if (hosts !== undefined) return parseHosts(hosts);
  return hostfile === undefined ? undefined : readHostfile(hostfile);
}

/** Throws if cores or GPUs cannot be assigned, or if there is no such network interface. */
export function jobRequest(launch: Launch): JobRequest {
  const { plan, command, options, settings, environment, driverEnvironment, say, clock } = launch;
  const { slots, remoteNames } = plan;
  // Throws if none of them is here. On one host nobody else would notice: its ranks use loopback only.
  if (settings.networkInterfaces !== undefined) listLocalAddresses(settings.networkInterfaces);
  const localSlots = slots.filter(({ hostname }) => !remoteNames.has(hostname));
  const localSize = Math.max(0, ...localSlots.map((slot) => slot.localSize));
  const isLocal = localSize > 0;
  return {
    ...outputOf(launch),
    slots,
    command,
    node: launch.node,
    environment,
    driverEnvironment,
    clock,
    terminalColumns: launch.terminalColumns,
    flightDirectory: settings.flightDirectory,
    keepGoing: options.keepGoing,
    forwarding: forwardingRules(options),
    isEncrypted: settings.encrypt && remoteNames.size > 0,
    // If -H has two names for this machine, they share its cores.
    corePinning: isLocal && settings.pinCores ? new CorePinning(localSlots.length, say) : undefined,
    gpus:
      isLocal && settings.pinGpus
        ? planGpus(driverEnvironment['CUDA_VISIBLE_DEVICES'], localSize)
        : undefined,
    remote: remoteNames.size === 0 ? undefined : { names: remoteNames, settings, ...reach(launch) },
  };
}

/** How the other hosts of a job are reached. */
export function reach(launch: Launch): Pick<RemoteHosts, 'ssh' | 'places'> {
  return launch.places === undefined ? { ssh: sshOptions(launch) } : { places: launch.places };
}

/** All ranks of a job that is not elastic in the places that were given to it. */
export function planPlaces(processes: number, { hosts }: GivenPlaces): HostPlan {
  const slots = planSlots(processes, hosts);
  return { slots, remoteNames: new Set(hosts.map(({ name }) => name)) };
}

export function outputOf({ options, stdout, stderr, say, onLine }: Launch): JobOutput {
  return {
    stdout,
    stderr,
    say,
    onLine,
    explain: options.verbose ? say : () => undefined,
    prefix: !options.prefixOutput ? 'none' : options.prefixTimestamp ? 'rank and time' : 'rank',
    outputDirectory: options.outputFilename,
  };
}

/** Scripts are run with it. */
export function nodeOf({ node }: Pick<Launch, 'node'>): NodeProgram {
  return node ?? process;
}

export function forwardingRules({ envAllow, envDeny }: LaunchOptions): ForwardingRules {
  return { allow: envAllow, deny: envDeny };
}

export function sshOptions({ options, settings, driverEnvironment }: Launch): SshOptions {
  return {
    port: options.sshPort,
    identityFile: options.sshIdentityFile,
    connectTimeoutMs: Math.min(settings.startTimeoutMs, maxConnectMs),
    remoteShell: parseRemoteShell(driverEnvironment['OMPI_MCA_plm_rsh_agent']),
  };
}
