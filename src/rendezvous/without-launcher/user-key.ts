// A secret that this user has on every host of a cluster: ~/.horovod/key, made at its first use. Clusters share home
// directories, so ranks that Slurm or Open MPI have started find the same one everywhere. It is used like a key of ssh: in
// a directory that only this user may enter, never sent anywhere; each job derives a secret of its own from it.

import { randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  fstatSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  type Stats,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { JobSecret } from '../../settings/job-secret.ts';

/** `problem` completes 'there is no secret: …'. */
export type UserKey = { readonly secret: JobSecret } | { readonly problem: string };

export function readUserKey(home: string = homedir()): UserKey {
  const directory = join(home, '.horovod');
  const path = join(directory, 'key');
  try {
    mkdirSync(directory, { mode: 0o700, recursive: false });
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') return { problem: `${directory} cannot be created (${codeOf(error)})` };
  }
  try {
    // lstat: a link would lead to a directory that others may change.
    const status = lstatSync(directory);
    if (!status.isDirectory() || !isPrivate(status))
      return {
        problem: `${directory} is not a directory that only its owner, this user, may enter (chmod 700)`,
      };
    const key = readKey(path) ?? makeKey(path);
    return typeof key === 'string' ? { problem: key } : { secret: key };
  } catch (error) {
    return { problem: `${path} cannot be read or written (${codeOf(error)})` };
  }
}

/** Undefined: there is none yet. A text says what is wrong with it. */
function readKey(path: string): JobSecret | string | undefined {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
  try {
    const status = fstatSync(fd);
    if (!status.isFile() || !isPrivate(status))
      return `${path} is not a file that only its owner, this user, may read (chmod 600)`;
    return JobSecret.fromHex(readFileSync(fd, 'utf8').trim()) ?? `${path} does not hold 64 hex digits`;
  } finally {
    closeSync(fd);
  }
}

/** Written under another name first: whoever sees the name sees the whole key, and the first of several processes wins. */
function makeKey(path: string): JobSecret | string {
  const draft = `${path}.${randomBytes(8).toString('hex')}`;
  writeFileSync(draft, `${randomBytes(32).toString('hex')}\n`, { flag: 'wx', mode: 0o600, flush: true });
  try {
    linkSync(draft, path);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  } finally {
    unlinkSync(draft);
  }
  return readKey(path) ?? `${path} has gone again`;
}

function isPrivate({ uid, mode }: Stats): boolean {
  return uid === process.geteuid?.() && (mode & 0o077) === 0;
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? String(error);
}
