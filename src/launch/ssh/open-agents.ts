// Prepares other machines to start ranks: an agent on each, reached by ssh.

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { HorovodError } from '../../errors.ts';
import { packageVersion } from '../../settings/package.ts';
import { AgentConnection } from '../agent/agent-connection.ts';
import { prepareOrder } from '../agent/prepare-order.ts';
import { protocolVersion } from '../agent/protocol.ts';
import { RemoteRanks } from '../agent/remote-ranks.ts';
import { HostProgress } from '../host-progress.ts';
import type { Slot } from '../hosts/plan-slots.ts';
import { nodeOf, type RemoteHosts } from '../job-request.ts';
import type { HostsRequest } from '../open-hosts.ts';
import type { HostRanks } from '../ranks/host-ranks.ts';
import type { StartClock } from '../start-clock.ts';
import { describeProblems, type HostProblem, hostProblem, versionProblem } from './host-problem.ts';
import { SshChannel } from './ssh-channel.ts';
import type { SshOptions } from './ssh-command.ts';

/** An agent, and how long the parts of its start took in milliseconds. */
interface OpenAgent {
  readonly agent: AgentConnection;
  readonly shellMs: number;
  readonly helloMs: number;
}

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
  const opened = await openAgent(request, name);
  if (!('agent' in opened)) return opened;
  request.explain(describeAgent(opened));
  return remoteRanks(request, opened.agent, slotCount, onLost);
}

function remoteRanks(
  request: HostsRequest,
  agent: AgentConnection,
  slotCount: number,
  onLost?: (why: string) => void,
): RemoteRanks {
  const { say, explain, watch, secret } = request;
  const order = { ...prepareOrder(request, agent, slotCount), secret: secret.revealForEnvironment() };
  return new RemoteRanks(agent, { order, say, explain, onLost, watch });
}

async function openAgent(request: HostsRequest, host: string): Promise<OpenAgent | HostProblem> {
  const { guardian, driverEnvironment, remote } = request;
  const { ssh, settings } = remote as RemoteHosts & { readonly ssh: SshOptions };
  const { startTimeoutMs, peerTimeoutMs: silenceMs } = settings;
  const directory = process.cwd();
  const agentPath = fileURLToPath(new URL('../agent/main.js', import.meta.url));
  const channel = new SshChannel({
    host,
    ssh,
    guardian,
    places: {
      directory,
      node: nodeOf(request).execPath,
      agents: [agentPath, join(directory, 'node_modules/horovod/dist/launch/agent/main.js')],
    },
    startTimeoutMs,
    environment: driverEnvironment,
  });
  const agent = await AgentConnection.open({ host, channel, startTimeoutMs, silenceMs });
  if (!(agent instanceof AgentConnection)) {
    const problem = hostProblem(channel.evidence(agent.kind === 'time up'));
    channel.kill();
    return problem;
  }
  const own = { version: packageVersion(), protocol: protocolVersion };
  const mismatch = versionProblem(host, own, agent.hello);
  if (mismatch === undefined)
    return { agent, shellMs: channel.shellMs, helloMs: performance.now() - channel.startedAt };
  await agent.close();
  return mismatch;
}

async function connectAgents(
  request: HostsRequest & { readonly clock: StartClock },
  hosts: readonly string[],
): Promise<Map<string, AgentConnection>> {
  const { say, explain, clock } = request;
  const progress = new HostProgress(hosts, say);
  const outcomes = await Promise.all(
    hosts.map((host) => openAgent(request, host).finally(() => progress.answered(host))),
  ).finally(() => progress.end());
  const opened = outcomes.filter((outcome): outcome is OpenAgent => 'agent' in outcome);
  const problems = outcomes.filter((outcome): outcome is HostProblem => !('agent' in outcome));
  if (problems.length > 0) {
    await Promise.all(opened.map(({ agent }) => agent.close()));
    throw new HorovodError('ERR_HVD_HOST', describeProblems(problems, outcomes.length));
  }
  const slowest = opened.reduce((a, b) => (a.helloMs >= b.helloMs ? a : b));
  clock.add('ssh', slowest.shellMs);
  clock.mark('hello');
  for (const each of opened) explain(describeAgent(each));
  return new Map(opened.map(({ agent }) => [agent.host, agent]));
}

function describeAgent({ agent: { host, hello }, shellMs, helloMs }: OpenAgent): string {
  return (
    `agent on ${host} (${hello.hostname}, pid ${hello.pid}, Node ${hello.node}): ` +
    `ssh ${Math.round(shellMs)} ms, hello ${Math.round(helloMs - shellMs)} ms`
  );
}
