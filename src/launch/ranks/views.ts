// What the launcher sees of a job that runs on several hosts.

import type { JobView } from '../../observe/status/job-view.ts';
import type { RecordProgress } from '../../observe/timeline/record-order.ts';
import type { JobRequest } from '../job-request.ts';
import type { HostRanks } from './host-ranks.ts';

/** Each host knows of all ranks. Those of this machine can be looked at; where there is none, the first other one is asked. */
export function viewOfHosts(
  hosts: readonly HostRanks[],
  { remote }: Pick<JobRequest, 'remote'>,
): JobView | undefined {
  const here = hosts.filter(({ hostname }) => remote?.names.has(hostname) !== true);
  if (here.length === 0) return hosts[0]?.look();
  return here.reduce((known: JobView | undefined, host) => host.look(known), undefined);
}

/** The host of rank 0 says it, if it is this machine. */
export function progressOfHosts(hosts: readonly HostRanks[], number: number): RecordProgress {
  const known = hosts.map((host) => host.recordProgress(number));
  return known.find((progress) => progress !== undefined && progress !== 'none') ?? 'none';
}
