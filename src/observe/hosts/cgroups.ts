// Where the kernel keeps the limits of a process: the folders of its control group (cgroup) and of the groups around it. A limit of
// any of them counts. Version 2 has one tree; version 1 has one for each controller, with other names of files.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Tests have folders of their own. */
export interface Places {
  /** /proc */
  readonly proc: string;
  /** /sys/fs/cgroup */
  readonly cgroup: string;
}

export const systemPlaces: Places = { proc: '/proc', cgroup: '/sys/fs/cgroup' };

export interface Cgroups {
  readonly version: 1 | 2;
  /** From its own to the outermost that can be seen from here. */
  readonly folders: readonly string[];
}

/** `pid`: 'self' is this process. No folders: the system has no such thing. */
export function cgroupsOf(
  { proc, cgroup }: Places,
  pid: number | 'self',
  controller: 'memory' | 'cpu',
): Cgroups {
  const lines = (readText(join(proc, String(pid), 'cgroup')) ?? '')
    .split('\n')
    .map((line) => line.split(':'));
  const old = lines.find(([, names = '']) => names.split(',').includes(controller));
  const path = (old ?? lines.find(([number, names]) => number === '0' && names === ''))?.slice(2).join(':');
  if (path === undefined) return { version: 2, folders: [] };
  const root = old === undefined ? cgroup : join(cgroup, controller);
  // A path with '..' leads out of what this process may see; in a container, the path may be that of another mount.
  const names = path.split('/').filter((name) => name !== '' && name !== '..');
  const folders = names.map((_, at) => join(root, ...names.slice(0, names.length - at)));
  return { version: old === undefined ? 2 : 1, folders: [...folders, root] };
}

export function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** Undefined for what is no number, such as 'max'. */
export function readNumber(path: string): number | undefined {
  return toNumber(readText(path));
}

export function toNumber(text: string | undefined): number | undefined {
  const value = text === undefined || text.trim() === '' ? Number.NaN : Number(text);
  return Number.isFinite(value) ? value : undefined;
}

/** The number after `name` in a file of names and numbers, such as /proc/meminfo and memory.stat. */
export function namedNumber(text: string, name: string): number | undefined {
  for (const line of text.split('\n')) {
    const [first, second] = line.split(/[:\s]+/);
    if (first === name) return toNumber(second);
  }
  return undefined;
}
