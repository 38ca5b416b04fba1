// Prepares other machines to start ranks: an agent on each, reached by ssh.

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { HorovodError } from '../../errors.ts';
import { formatAddress, withoutLoopback } from '../../net/addresses.ts';
import { loopbackId } from '../../net/machine.ts';
import { packageVersion } from '../../settings/package.ts';
import { environmentForOtherHosts } from '../agent/forwarded-environment.ts';
import type { PrepareOrder } from '../agent/protocol.ts';
import { nodeOptionsForRanks } from '../command.ts';
import { HostProgress } from '../host-progress.ts';
import type { Slot } from '../hosts/plan-slots.ts';
import { nodeOf, type RemoteHosts } from '../job-request.ts';
import type { HostsRequest } from '../open-hosts.ts';
import type { HostRanks } from '../ranks/host-ranks.ts';
import type { StartClock } from '../start-clock.ts';
import { AgentConnection } from './agent-connection.ts';
import { describeProblems, type HostProblem } from './host-problem.ts';
import { RemoteRanks } from './remote-ranks.ts';

/** All hosts, by name, or an error that reports every one that cannot be used. */
export async function openRemoteHosts(
  request: HostsRequest & { readonly clock: StartClock },
  hosts: readonly (readonly [name: string, slots: readonly Slot[]])[],
): Promise<Map<string, HostRanks>> {
  const agents = await connectAgents(
    request,
    hosts.map(([name]) => name),
  );
  return new Map(
    hosts.map(([name, slots]) => [
      name,
      remoteRanks(request, agents.get(name) as AgentConnection, slots.length),
    ]),
  );
}

/** One host of an elastic job. */
export async function openRemoteHost(
  request: HostsRequest,
  name: string,
  slotCount: number,
  onLost: (why: string) => void,
): Promise<HostRanks | HostProblem> {
  const agent = await AgentConnection.open(agentOptions(request, name));
  if (!(agent instanceof AgentConnection)) return agent;
  request.explain(describeAgent(agent));
  return remoteRanks(request, agent, slotCount, onLost);
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
  const { execPath, execArgv } = nodeOf(request);
  const order: PrepareOrder = {
    jobId: request.jobId,
    secret: request.secret.revealForEnvironment(),
    hostname: agent.host,
    slotCount,
    words: request.command,
    execPath,
    execArgv: nodeOptionsForRanks(execArgv),
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

function agentOptions(request: HostsRequest, host: string): Parameters<typeof AgentConnection.open>[0] {
  const { guardian, driverEnvironment, remote } = request;
  const { ssh, settings } = remote as RemoteHosts;
  const directory = process.cwd();
  const agentPath = fileURLToPath(new URL('../agent/main.js', import.meta.url));
  return {
    host,
    ssh,
    guardian,
    places: {
      directory,
      node: nodeOf(request).execPath,
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
  const { say, explain, clock } = request;
  const progress = new HostProgress(hosts, say);
  const outcomes = await Promise.all(
    hosts.map((host) =>
      AgentConnection.open(agentOptions(request, host)).finally(() => progress.answered(host)),
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
