// What an agent is told first: what all ranks of its host have in common.

import { formatAddress, withoutLoopback } from '../../net/addresses.ts';
import { loopbackId } from '../../net/machine.ts';
import { nodeOptionsForRanks } from '../command.ts';
import { nodeOf, type RemoteHosts } from '../job-request.ts';
import type { HostsRequest } from '../open-hosts.ts';
import type { AgentConnection } from './agent-connection.ts';
import { environmentForOtherHosts } from './forwarded-environment.ts';
import type { PrepareOrder } from './protocol.ts';

/** Without the secret. */
export function prepareOrder(
  request: HostsRequest,
  { host, hello }: AgentConnection,
  slotCount: number,
): PrepareOrder {
  const { server, watch } = request;
  const { settings } = request.remote as RemoteHosts;
  const { launcherAddress, loopback } = hello;
  // The address from which this host was logged into leads back here even through NAT. It is not used if the user has
  // chosen interfaces, perhaps to keep the job off that network.
  const seen =
    launcherAddress === undefined || settings.networkInterfaces !== undefined
      ? []
      : [formatAddress({ host: launcherAddress, port: server.port })];
  const addresses = [...new Set([...seen, ...server.addresses])];
  const isHere = loopback === loopbackId();
  const { execPath, execArgv } = nodeOf(request);
  return {
    jobId: request.jobId,
    hostname: host,
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
}
