// How many cores the processes of this machine may use: the fewest that affinity (taskset, cpuset) and the CPU quota of the
// control group (docker run --cpus 2) allow.

import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';

export function allowedCores(
  read: (file: string) => string = (file) => readFileSync(file, 'utf8'),
  byAffinity: number = availableParallelism(),
): number {
  const quota = Math.min(...quotas(read));
  return quota < byAffinity ? Math.max(1, Math.ceil(quota)) : byAffinity;
}

/** Of the control group and all groups around it, in cores. */
function quotas(read: (file: string) => string): number[] {
  const root = '/sys/fs/cgroup';
  let group: string;
  try {
    group = /^0::(\/.*)$/m.exec(read('/proc/self/cgroup'))?.[1] ?? '/';
  } catch {
    return [];
  }
  const found: number[] = [];
  for (let place = join(root, group); place.startsWith(root); place = dirname(place)) {
    try {
      const [quota, period] = read(join(place, 'cpu.max')).split(' ').map(Number) as [number, number];
      if (quota > 0 && period > 0) found.push(quota / period);
    } catch {
      // The root has none, and neither has a machine with the older control groups.
    }
  }
  return found;
}

/** A hint for more ranks than cores; undefined if there are enough. */
export function crowdedHint(ranks: number, cores: number = allowedCores()): string | undefined {
  if (ranks <= cores) return undefined;
  return (
    `${ranks} ranks share ${cores} core${cores === 1 ? '' : 's'}. They take turns, so the job is hardly faster than with ` +
    `${cores} rank${cores === 1 ? '' : 's'}.`
  );
}
