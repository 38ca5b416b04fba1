// How much memory is left for the processes of a job: that of the machine, or what a cgroup still allows, whichever is less. A limit of
// a cgroup is what kills the ranks of a container or of a Spark executor, while the machine has plenty.

import { join } from 'node:path';
import { type Cgroups, cgroupsOf, namedNumber, type Places, readNumber, readText } from './cgroups.ts';

export interface MemoryUse {
  readonly totalBytes: number;
  /** What may still be used before something has to be killed. */
  readonly availableBytes: number;
  /** Whose limit that is. */
  readonly limit: 'machine' | 'cgroup';
}

/** Undefined where there is no /proc. */
export function readMemory(places: Places, pid: number | 'self'): MemoryUse | undefined {
  const machine = readMachine(places);
  if (machine === undefined) return undefined;
  const groups = cgroupsOf(places, pid, 'memory');
  return groups.folders
    .flatMap((folder) => readGroup(folder, groups.version, machine.totalBytes) ?? [])
    .reduce((least, each) => (each.availableBytes < least.availableBytes ? each : least), machine);
}

function readMachine({ proc }: Places): MemoryUse | undefined {
  const text = readText(join(proc, 'meminfo'));
  const kilobytes = (name: string) => namedNumber(text ?? '', name);
  const total = kilobytes('MemTotal');
  const available = kilobytes('MemAvailable');
  if (total === undefined || available === undefined) return undefined;
  return { totalBytes: total * 1024, availableBytes: available * 1024, limit: 'machine' };
}

const fileNames = {
  1: { limit: 'memory.limit_in_bytes', used: 'memory.usage_in_bytes', cold: 'total_inactive_file' },
  2: { limit: 'memory.max', used: 'memory.current', cold: 'inactive_file' },
} as const;

/** Undefined: it has no limit below the size of the machine. */
function readGroup(folder: string, version: Cgroups['version'], machineBytes: number): MemoryUse | undefined {
  const names = fileNames[version];
  const totalBytes = readNumber(join(folder, names.limit));
  const used = readNumber(join(folder, names.used));
  if (totalBytes === undefined || used === undefined || totalBytes >= machineBytes) return undefined;
  // Pages of files that nobody has touched lately are given up before anything is killed.
  const cold = namedNumber(readText(join(folder, 'memory.stat')) ?? '', names.cold) ?? 0;
  const availableBytes = Math.min(Math.max(totalBytes - Math.max(used - cold, 0), 0), totalBytes);
  return { totalBytes, availableBytes, limit: 'cgroup' };
}

/** Of one process; undefined: it has ended. */
export function readRss({ proc }: Places, pid: number): number | undefined {
  const kilobytes = namedNumber(readText(join(proc, String(pid), 'status')) ?? '', 'VmRSS');
  return kilobytes === undefined ? undefined : kilobytes * 1024;
}
