// Finds the control blocks of running jobs on this machine. They have no name, but their processes have them open, and /proc shows
// this to the same user. No other permission is needed. On systems without /proc (macOS), memory files have names in their directory
// and only their user can read them.

import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { join } from 'node:path';

export interface FoundBlock {
  /** The path to open it. */
  readonly path: string;
  /** A short, unique part of its name. */
  readonly mark: string;
  /** Whether its processes run in a container, so that their pids are not valid here. */
  readonly isForeign: boolean;
}

export interface Found {
  readonly blocks: readonly FoundBlock[];
  /** Processes of other users that look like a job but cannot be inspected. */
  readonly hidden: readonly { readonly pid: number; readonly uid: number }[];
}

const blockName = /(?:^|\/)horovod-control-([0-9a-f]{16})(?: \(deleted\))?$/;

/** `directory`: where memory files are created. */
export function findBlocks(directory: string, proc = '/proc'): Found {
  const pids = namesIn(proc).filter((name) => /^\d+$/.test(name));
  if (pids.length === 0) return { blocks: namedBlocks(directory), hidden: [] };
  const blocks = new Map<string, FoundBlock>();
  const hidden: { pid: number; uid: number }[] = [];
  const own = linkOf(join(proc, 'self/ns/pid'));
  for (const pid of pids) {
    const folder = join(proc, pid, 'fd');
    const fds = namesOf(folder);
    if (fds === 'forbidden') {
      const uid = ownerOfJob(join(proc, pid));
      if (uid !== undefined) hidden.push({ pid: Number(pid), uid });
      continue;
    }
    for (const fd of fds) {
      const path = join(folder, fd);
      const mark = blockName.exec(linkOf(path))?.[1];
      // All ranks of the host and the launcher have it open.
      if (mark === undefined || blocks.has(mark)) continue;
      blocks.set(mark, { path, mark, isForeign: linkOf(join(proc, pid, 'ns/pid')) !== own });
    }
  }
  return { blocks: [...blocks.values()], hidden };
}

function namedBlocks(directory: string): FoundBlock[] {
  return namesIn(directory).flatMap((name) => {
    const mark = blockName.exec(name)?.[1];
    return mark === undefined ? [] : [{ path: join(directory, name), mark, isForeign: false }];
  });
}

/** For a process that runs horovodrun or was started by it. */
function ownerOfJob(folder: string): number | undefined {
  try {
    const words = readFileSync(join(folder, 'cmdline'), 'utf8').split('\0');
    const isJob = words
      .slice(0, 4)
      .some((word) => /(^|\/)(horovodrun(\.js)?|horovod\/dist\/\S*\.js)$/.test(word));
    return isJob ? statSync(folder).uid : undefined;
  } catch {
    return undefined;
  }
}

function namesIn(folder: string): string[] {
  const names = namesOf(folder);
  return names === 'forbidden' ? [] : names;
}

/** Empty for a process that has just exited. */
function namesOf(folder: string): string[] | 'forbidden' {
  try {
    return readdirSync(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'EACCES' || code === 'EPERM' ? 'forbidden' : [];
  }
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}
