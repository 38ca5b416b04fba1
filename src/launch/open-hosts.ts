// Prepares every host of a job to start its ranks: this machine directly, other machines through an agent each, all at the
// same time. If some hosts cannot be used, all of them are reported together and nothing is started anywhere.

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { HorovodError } from '../errors.ts';
import { formatAddress } from '../net/addresses.ts';
import type { TcpStoreServer } from '../rendezvous/store/tcp-store-server.ts';
import { forwardedEnvironment } from '../settings/environment.ts';
import type { JobSecret } from '../settings/job-secret.ts';
import { packageVersion } from '../settings/package.ts';
import { environmentForOtherHosts } from './agent/forwarded-environment.ts';
import type { StartOrder } from './agent/protocol.ts';
import { resolveCommand } from './command.ts';
import { HostProgress } from './host-progress.ts';
import type { Slot } from './hosts/plan-slots.ts';
import type { JobRequest, RemoteHosts } from './job-request.ts';
import type { HostRanks } from './ranks/host-ranks.ts';
import { LocalRanks } from './ranks/local-ranks.ts';
import type { Guardian } from './spawn/guardian.ts';
import { AgentConnection } from './ssh/agent-connection.ts';
import { describeProblems, type HostProblem } from './ssh/host-problem.ts';
import { RemoteRanks } from './ssh/remote-ranks.ts';
import type { StartClock } from './start-clock.ts';

export interface HostsRequest extends JobRequest {
  readonly secret: JobSecret;
  readonly jobId: string;
  readonly graceMs: number;
  readonly guardian: Guardian;
  readonly server: TcpStoreServer;
  readonly clock: StartClock;
}

/** In the order of their ranks. */
export async function openHosts(request: HostsRequest): Promise<HostRanks[]> {
  const groups = slotsByHost(request.slots);
  const agents = await connectAgents(request, [...groups.keys()]);
  let place = 0;
  return [...groups].map(([name, slots]) => {
    const agent = agents.get(name);
    if (agent !== undefined) return remoteRanks(request, agent, slots);
    const firstPlace = place;
    place += slots.length;
    return localRanks(request, slots, firstPlace);
  });
}

function slotsByHost(slots: readonly Slot[]): Map<string, Slot[]> {
  const groups = new Map<string, Slot[]>();
  for (const slot of slots) groups.set(slot.hostname, [...(groups.get(slot.hostname) ?? []), slot]);
  return groups;
}

function localRanks(request: HostsRequest, slots: readonly Slot[], firstPlace: number): LocalRanks {
  const { command, server, driverEnvironment, forwarding } = request;
  return new LocalRanks({
    ...request,
    slots,
    firstPlace,
    rendezvousAddress: server.address,
    driverEnvironment: forwardedEnvironment(driverEnvironment, forwarding),
    command: resolveCommand(command, process.execPath, process.execArgv),
  });
}

function remoteRanks(request: HostsRequest, agent: AgentConnection, slots: readonly Slot[]): RemoteRanks {
  const { server, say, explain } = request;
  const { settings } = request.remote as RemoteHosts;
  const { launcherAddress } = agent.hello;
  // The address from which this host was logged into leads back here even through NAT. It is not used if the user has
  // chosen interfaces, perhaps to keep the job off that network.
  const seen =
    launcherAddress === undefined || settings.networkInterfaces !== undefined
      ? []
      : [formatAddress({ host: launcherAddress, port: server.port })];
  const order: StartOrder = {
    jobId: request.jobId,
    secret: request.secret.revealForEnvironment(),
    slots,
    words: request.command,
    execPath: process.execPath,
    execArgv: process.execArgv,
    forwarded: environmentForOtherHosts(request.driverEnvironment, request.forwarding),
    environment: request.environment,
    rendezvousAddress: [...new Set([...seen, ...server.addresses])].join(','),
    pinCores: settings.pinCores,
    pinGpus: settings.pinGpus,
    graceMs: request.graceMs,
    silenceMs: settings.peerTimeoutMs,
  };
  return new RemoteRanks(agent, { slots, order, say, explain });
}

async function connectAgents(
  { remote, guardian, driverEnvironment, say, explain, clock }: HostsRequest,
  hosts: readonly string[],
): Promise<Map<string, AgentConnection>> {
  if (remote === undefined) return new Map();
  const { ssh, settings } = remote;
  const directory = process.cwd();
  const agentPath = fileURLToPath(new URL('./agent/main.js', import.meta.url));
  const places = {
    directory,
    node: process.execPath,
    agents: [agentPath, join(directory, 'node_modules/horovod/dist/launch/agent/main.js')],
  };
  const others = hosts.filter((host) => remote.names.has(host));
  const progress = new HostProgress(others, say);
  const outcomes = await Promise.all(
    others.map((host) =>
      AgentConnection.open({
        host,
        places,
        ssh,
        guardian,
        version: packageVersion(),
        startTimeoutMs: settings.startTimeoutMs,
        silenceMs: settings.peerTimeoutMs,
        environment: driverEnvironment,
      }).finally(() => progress.answered(host)),
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
  for (const { host, hello, times } of agents) {
    explain(
      `agent on ${host} (${hello.hostname}, pid ${hello.pid}, Node ${hello.node}): ` +
        `ssh ${Math.round(times.shellMs)} ms, hello ${Math.round(times.helloMs - times.shellMs)} ms`,
    );
  }
  return new Map(agents.map((agent) => [agent.host, agent]));
}
