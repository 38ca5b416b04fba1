// The config file of a data service: who may have written it, and how it is written. It holds the key of the service, and in a
// folder such as /tmp anybody may put a file of that name there first; so only a file counts that belongs to this user or to
// root, and that nobody else can write. On this machine that is asked of the open file, not of its name.

import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { HorovodError } from '../../errors.ts';
import { writeFileAtomically } from '../../files/atomic-write.ts';
import { fileError, problemOf } from '../../files/file-system.ts';
import { localFileError } from '../../files/local.ts';
import { isHttp, isLocal, pathOf } from '../../files/location.ts';
import { readTextFile } from '../../files/read-file.ts';
import type { Files } from '../../files/registry.ts';

export interface ConfigFileOptions {
  readonly signal?: AbortSignal | undefined;
  /** Who reads: a number on this machine, a name on HDFS. Default: the user of this process. */
  readonly user?: number | string | undefined;
}

const maxBytes = 64 * 1024;
const privateMode = 0o600;
/** Written by the group, or by everybody. */
const writableByOthers = 0o022;
/** Who may write anything anyway. */
const superusers: readonly (number | string)[] = [0, 'root', 'hdfs'];

/** Rejects with ERR_HVD_DATA_SERVICE if the file is not to be trusted, and as the file system does if it is missing. */
export async function readConfigFile(
  files: Files,
  location: string,
  { signal, user }: ConfigFileOptions = {},
): Promise<string> {
  if (isLocal(location)) return readLocal(pathOf(location), user ?? process.getuid?.());
  if (isHttp(location)) {
    throw untrusted(location, 'it comes from a web server, and nothing says who can write it there');
  }
  const fileSystem = await files.fileSystem(location);
  const before = await fileSystem.stat(location, { signal });
  check(location, before, user ?? remoteUser(files));
  const text = await readTextFile(files, location, { signal, maxBytes });
  const after = await fileSystem.stat(location, { signal });
  check(location, after, user ?? remoteUser(files));
  return text;
}

/** Whole or not at all, and readable by its owner alone from the first moment on. */
export async function writeConfigFile(files: Files, location: string, text: string): Promise<void> {
  try {
    await writeFileAtomically(files, location, text, { permission: privateMode });
  } catch (error) {
    if (problemOf(error) !== 'forbidden') throw error;
    throw new HorovodError(
      'ERR_HVD_DATA_SERVICE',
      `the config of the data service cannot be written to ${location}: ${(error as HorovodError).detail} If somebody else has a ` +
        'file of that name there, choose another name.',
      { cause: error },
    );
  }
}

async function readLocal(path: string, user: number | string | undefined): Promise<string> {
  // Without O_NONBLOCK a named pipe that somebody has put there would hold this process for ever.
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch((error: unknown) => {
    throw localFileError('read', path, error);
  });
  try {
    const stats = await handle.stat();
    if (!stats.isFile()) throw fileError(`${path} is not a file.`);
    check(path, { owner: stats.uid, permission: stats.mode & 0o7777 }, user);
    if (stats.size > maxBytes)
      throw fileError(`${path} has ${stats.size} bytes; at most ${maxBytes} were expected.`);
    return await handle.readFile('utf8');
  } finally {
    await handle.close();
  }
}

/** Of HDFS. With a delegation token the server alone knows who this is: then the owner says nothing. */
function remoteUser(files: Files): string | undefined {
  const { hadoopUser, hdfsToken, hadoopTokenFile } = files.settings;
  if (hadoopUser !== undefined) return hadoopUser;
  return hdfsToken === undefined && hadoopTokenFile === undefined ? userInfo().username : undefined;
}

/** File systems that have no owners or modes are trusted as a whole. */
function check(
  location: string,
  file: { readonly owner?: number | string | undefined; readonly permission?: number | undefined },
  user: number | string | undefined,
): void {
  const { owner, permission } = file;
  if (owner !== undefined && user !== undefined && owner !== user && !superusers.includes(owner)) {
    const who = typeof owner === 'number' ? `the user with number ${owner}` : owner;
    throw untrusted(location, `it belongs to ${who}, and not to you (${user})`);
  }
  if (permission !== undefined && (permission & writableByOthers) !== 0) {
    const mode = permission.toString(8).padStart(3, '0');
    throw untrusted(
      location,
      `others can write it (mode ${mode}). If you are sure that nobody has changed it: chmod 600 ${location}`,
    );
  }
}

function untrusted(location: string, why: string): HorovodError {
  return new HorovodError(
    'ERR_HVD_DATA_SERVICE',
    `${location} is not used as the config of a data service: ${why}. Whoever writes that file decides what this process trains on.`,
  );
}
