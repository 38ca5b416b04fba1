// Prepares hosts to start ranks: this machine directly, other machines through an agent each. The hosts of a job are opened at
// the same time; if some cannot be used, all of them are reported together and nothing is started anywhere. An elastic job opens
// each host by itself.

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { HorovodError } from '../errors.ts';
import { formatAddress, withoutLoopback } from '../net/addresses.ts';
import { loopbackId } from '../net/machine.ts';
import type { TcpStoreServer } from '../rendezvous/store/tcp-store-server.ts';
import { forwardedEnvironment } from '../settings/environment.ts';
import type { JobSecret } from '../settings/job-secret.ts';
import { packageVersion } from '../settings/package.ts';
import { environmentForOtherHosts } from './agent/forwarded-environment.ts';
import type { PrepareOrder } from './agent/protocol.ts';
import { nodeOptionsForRanks, resolveCommand } from './command.ts';
import { HostProgress } from './host-progress.ts';
import type { Slot } from './hosts/plan-slots.ts';
import type { JobRequest, RemoteHosts } from './job-request.ts';
import type { HostRanks } from './ranks/host-ranks.ts';
import { LocalRanks } from './ranks/local-ranks.ts';
import type { ProcessWatchOptions } from './ranks/process-watch.ts';
import type { Guardian } from './spawn/guardian.ts';
import { AgentConnection } from './ssh/agent-connection.ts';
import { describeProblems, type HostProblem } from './ssh/host-problem.ts';
import { RemoteRanks } from './ssh/remote-ranks.ts';
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
  const agents = await connectAgents(request, [...groups.keys()]);
  let place = 0;
  return [...groups].map(([name, slots]) => {
    const agent = agents.get(name);
    if (agent !== undefined) return { slots, ranks: remoteRanks(request, agent, slots.length) };
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
  const { remote } = request;
  if (remote === undefined || !remote.names.has(name)) return localRanks(request, name);
  const agent = await AgentConnection.open(agentOptions(request, remote, name));
  if (!(agent instanceof AgentConnection)) return agent;
  request.explain(describeAgent(agent));
  return remoteRanks(request, agent, slotCount, onLost);
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
    command: resolveCommand(command, process.execPath, process.execArgv),
  });
}

function remoteRanks(
  request: HostsRequest,
  agent: AgentConnection,
  slotCount: number,
  onLost?: (why: string) => void,
): RemoteRanks {
  const { server, say, explain, watch } = request;
  const { settings } = request.remote as RemoteHosts;
  const { launcherAddress, loopback } = agent.hello;
  // The address from which this host was logged into leads back here even through NAT. It is not used if the user has
  // chosen interfaces, perhaps to keep the job off that network.
  const seen =
    launcherAddress === undefined || settings.networkInterfaces !== undefined
      ? []
      : [formatAddress({ host: launcherAddress, port: server.port })];
  const addresses = [...new Set([...seen, ...server.addresses])];
  const isHere = loopback === loopbackId();
  const order: PrepareOrder = {
    jobId: request.jobId,
    secret: request.secret.revealForEnvironment(),
    hostname: agent.host,
    slotCount,
    words: request.command,
    execPath: process.execPath,
    execArgv: nodeOptionsForRanks(process.execArgv),
    forwarded: environmentForOtherHosts(request.driverEnvironment, request.forwarding),
    environment: request.environment,
    rendezvousAddress: (isHere ? addresses : withoutLoopback(addresses)).join(','),
    terminalColumns: request.terminalColumns,
    pinCores: settings.pinCores,
    pinGpus: settings.pinGpus,
    graceMs: request.graceMs,
    silenceMs: settings.peerTimeoutMs,
    hangTimeoutMs: watch?.hangTimeoutMs,
  };
  return new RemoteRanks(agent, { order, say, explain, onLost, watch });
}

function agentOptions(
  { guardian, driverEnvironment }: Pick<HostsRequest, 'guardian' | 'driverEnvironment'>,
  { ssh, settings }: RemoteHosts,
  host: string,
): Parameters<typeof AgentConnection.open>[0] {
  const directory = process.cwd();
  const agentPath = fileURLToPath(new URL('./agent/main.js', import.meta.url));
  return {
    host,
    ssh,
    guardian,
    places: {
      directory,
      node: process.execPath,
      agents: [agentPath, join(directory, 'node_modules/horovod/dist/launch/agent/main.js')],
    },
    version: packageVersion(),
    startTimeoutMs: settings.startTimeoutMs,
    silenceMs: settings.peerTimeoutMs,
    environment: driverEnvironment,
  };
}

async function connectAgents(
  request: HostsRequest & { readonly clock: StartClock },
  hosts: readonly string[],
): Promise<Map<string, AgentConnection>> {
  const { remote, say, explain, clock } = request;
  if (remote === undefined) return new Map();
  const others = hosts.filter((host) => remote.names.has(host));
  const progress = new HostProgress(others, say);
  const outcomes = await Promise.all(
    others.map((host) =>
      AgentConnection.open(agentOptions(request, remote, host)).finally(() => progress.answered(host)),
    ),
  ).finally(() => progress.end());
  const agents = outcomes.filter((outcome) => outcome instanceof AgentConnection);
  const problems = outcomes.filter(
    (outcome): outcome is HostProblem => !(outcome instanceof AgentConnection),
  );
  if (problems.length > 0) {
    await Promise.all(agents.map((agent) => agent.close()));
    throw new HorovodError('ERR_HVD_HOST', describeProblems(problems, outcomes.length));
  }
  const slowest = agents.reduce((a, b) => (a.times.helloMs >= b.times.helloMs ? a : b));
  clock.add('ssh', slowest.times.shellMs);
  clock.mark('hello');
  for (const agent of agents) explain(describeAgent(agent));
  return new Map(agents.map((agent) => [agent.host, agent]));
}

function describeAgent({ host, hello, times }: AgentConnection): string {
  return (
    `agent on ${host} (${hello.hostname}, pid ${hello.pid}, Node ${hello.node}): ` +
    `ssh ${Math.round(times.shellMs)} ms, hello ${Math.round(times.helloMs - times.shellMs)} ms`
  );
}
