// In a job on one host that was not started by horovodrun, the first rank reports how busy the host is: there is no process beside the
// ranks, and no watch. On several hosts, the watches do (host-watch/host-mirror.ts).

import type { Log } from '../../console/log.ts';
import type { ControlBlock } from '../../control/control-block.ts';
import { HostReporter } from '../../observe/hosts/host-reporter.ts';
import type { Settings } from '../../settings/table.ts';
import type { HostMap } from './hosts.ts';

export interface HostReportRequest {
  readonly settings: Pick<Settings, 'launcher'>;
  readonly hosts: HostMap;
  readonly block: ControlBlock;
  readonly members: readonly number[];
  readonly place: number;
  readonly log: Log;
}

/** Undefined: this is the task of another process. */
export function reportHost(request: HostReportRequest): HostReporter | undefined {
  const { settings, hosts, block, members, place, log } = request;
  if (settings.launcher.kind === 'horovodrun' || hosts.hosts > 1 || place !== 0) return undefined;
  const host = hosts.nameOf(place);
  // A process that trains starts no other process.
  const reporter = new HostReporter({
    host,
    gpus: 'none',
    onLowMemory: (text) => log.write('warning', `${host}: ${text}`),
  });
  const ranks = () => members.map((rank) => ({ rank, pid: block.pid(rank) }));
  reporter.use(block, () => ranks().filter(({ pid }) => pid !== 0));
  return reporter;
}
