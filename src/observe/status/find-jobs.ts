// Finds the control blocks of running jobs on this machine. They have no name: their processes have them open, and
// /proc shows that to the same user, which is all the permission there is. Where there is no /proc (macOS) memory files
// have a name in their directory, readable by their user only.

import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { join } from 'node:path';

export interface FoundBlock {
  /** To open it by. */
  readonly path: string;
  /** Part of its name: short, and no two blocks have the same. */
  readonly mark: string;
  /** Its processes are in a container: their numbers in it mean nothing here. */
  readonly isForeign: boolean;
}

export interface Found {
  readonly blocks: readonly FoundBlock[];
  /** Processes of others that look like a job, and cannot be looked into. */
  readonly hidden: readonly { readonly pid: number; readonly uid: number }[];
}

const blockName = /(?:^|\/)horovod-control-([0-9a-f]{16})(?: \(deleted\))?$/;

/** `directory`: where memory files are made. */
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
      // Every rank of the host has it open, and the launcher.
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

/** Of a process that runs horovodrun, or was started by it. */
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

/** None for a process that has just ended. */
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
