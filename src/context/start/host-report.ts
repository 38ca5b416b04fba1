// In a job on one host that was not started by horovodrun, the first rank reports how busy the host is: there is no process beside the
// ranks, and no watch. On several hosts, the watches do (host-watch/host-mirror.ts).

import type { Log } from '../../console/log.ts';
import type { ControlBlock } from '../../control/control-block.ts';
import { HostReporter } from '../../observe/hosts/host-reporter.ts';
import type { HostMap } from './hosts.ts';

export interface HostReportRequest {
  readonly hosts: HostMap;
  readonly block: ControlBlock;
  readonly members: readonly number[];
  readonly log: Log;
}

export function reportHost({ hosts, block, members, log }: HostReportRequest): HostReporter {
  const host = hosts.nameOf(0);
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
