// Files of this machine, by node:fs. Reads are positioned, so that several can run on one handle.

import type { Stats } from 'node:fs';
import { constants } from 'node:fs';
import {
  appendFile,
  type FileHandle,
  link,
  lstat,
  mkdir,
  open,
  readdir,
  rename,
  rm,
  rmdir,
  stat,
  unlink,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  type CreateOptions,
  type FileProblem,
  type FileStatus,
  type FileSystem,
  fileError,
  type ReadHandle,
  type RemoveOptions,
  type RenameOptions,
  type WriteHandle,
} from './file-system.ts';
import { nameOf, pathOf } from './location.ts';

export class LocalFileSystem implements FileSystem {
  async stat(location: string): Promise<FileStatus> {
    const path = pathOf(location);
    return statusOf(path, await attempt('read', path, () => stat(path)));
  }

  async list(location: string): Promise<FileStatus[]> {
    const folder = pathOf(location);
    const names = await attempt('list', folder, () => readdir(folder));
    const statuses = await Promise.all(names.map((name) => entryOf(join(folder, name))));
    return statuses.filter((status) => status !== undefined);
  }

  async open(location: string): Promise<ReadHandle> {
    const path = pathOf(location);
    const file = await attempt('read', path, () => open(path, 'r'));
    const stats = await file.stat();
    if (!stats.isDirectory()) return new LocalReadHandle(path, file, stats.size);
    await file.close();
    throw fileError(`${path} is a folder, not a file.`);
  }

  async mkdir(location: string): Promise<void> {
    const path = pathOf(location);
    await attempt('create', path, () => mkdir(path, { recursive: true }));
  }

  async remove(location: string, { recursive = false }: RemoveOptions = {}): Promise<void> {
    const path = pathOf(location);
    await attempt('remove', path, async () => {
      if (recursive) return rm(path, { recursive, force: true });
      const stats = await lstat(path).catch(() => undefined);
      if (stats !== undefined) await (stats.isDirectory() ? rmdir(path) : unlink(path));
    });
  }

  async append(location: string, bytes: Uint8Array): Promise<void> {
    const path = pathOf(location);
    // Without O_CREAT: only an existing file.
    const flag = constants.O_WRONLY | constants.O_APPEND;
    await attempt('append to', path, () => appendFile(path, bytes, { flag: flag as never }));
  }

  async create(location: string, options: CreateOptions = {}): Promise<WriteHandle> {
    const path = pathOf(location);
    const flag = options.overwrite ? 'w' : 'wx';
    const file = await attempt('create', path, () => open(path, flag, options.permission));
    return new LocalWriteHandle(path, file);
  }

  async rename(from: string, to: string, { overwrite = false }: RenameOptions = {}): Promise<void> {
    const [source, target] = [pathOf(from), pathOf(to)];
    await attempt('rename', source, () => (overwrite ? rename(source, target) : renameNew(source, target)));
    await syncFolder(dirname(target));
  }
}

class LocalReadHandle implements ReadHandle {
  readonly location: string;
  readonly size: number;
  readonly isSequential = false;
  readonly #file: FileHandle;

  constructor(location: string, file: FileHandle, size: number) {
    this.location = location;
    this.size = size;
    this.#file = file;
  }

  async read(target: Uint8Array, position: number): Promise<number> {
    let done = 0;
    while (done < target.byteLength) {
      const { bytesRead } = await attempt('read', this.location, () =>
        this.#file.read(target, done, target.byteLength - done, position + done),
      );
      if (bytesRead === 0) break;
      done += bytesRead;
    }
    return done;
  }

  async close(): Promise<void> {
    await this.#file.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

class LocalWriteHandle implements WriteHandle {
  readonly location: string;
  readonly #file: FileHandle;
  #isOpen = true;

  constructor(location: string, file: FileHandle) {
    this.location = location;
    this.#file = file;
  }

  async write(bytes: Uint8Array): Promise<void> {
    for (let done = 0; done < bytes.byteLength; ) {
      const { bytesWritten } = await attempt('write', this.location, () =>
        this.#file.write(bytes, done, bytes.byteLength - done),
      );
      done += bytesWritten;
    }
  }

  async close(): Promise<void> {
    if (!this.#isOpen) return;
    await attempt('write', this.location, () => this.#file.sync());
    this.#isOpen = false;
    await attempt('write', this.location, () => this.#file.close());
  }

  async abort(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.#file.close();
    await rm(this.location, { force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.abort();
  }
}

/** A file that was removed since the folder was read has no entry; a link to nothing has none either. */
async function entryOf(path: string): Promise<FileStatus | undefined> {
  try {
    const own = await lstat(path);
    if (!own.isSymbolicLink()) return statusOf(path, own);
    return { ...statusOf(path, await stat(path)), isLink: true };
  } catch (error) {
    if (['ENOENT', 'ELOOP'].includes(codeOf(error) ?? '')) return undefined;
    throw translate('read', path, error);
  }
}

function statusOf(path: string, stats: Stats): FileStatus {
  return {
    location: path,
    name: nameOf(path),
    kind: stats.isDirectory() ? 'folder' : 'file',
    size: stats.isDirectory() ? 0 : stats.size,
    modifiedMs: stats.mtimeMs,
    owner: stats.uid,
    permission: stats.mode & 0o7777,
  };
}

/** rename() replaces its target; link() does not. Folders cannot be linked: there is a moment between the look and the rename. */
async function renameNew(source: string, target: string): Promise<void> {
  const stats = await lstat(source);
  if (stats.isDirectory()) {
    if ((await lstat(target).catch(() => undefined)) !== undefined) {
      throw Object.assign(new Error(`EEXIST: ${target}`), { code: 'EEXIST' });
    }
    return rename(source, target);
  }
  await link(source, target);
  await unlink(source);
}

/** A rename is on the disk only when its folder is. Some file systems cannot do that; the rename stands all the same. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r').catch(() => undefined);
  await handle?.sync().catch(() => undefined);
  await handle?.close();
}

async function attempt<T>(verb: string, path: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    throw translate(verb, path, error);
  }
}

const problems: Readonly<Record<string, readonly [FileProblem | undefined, string]>> = {
  ENOENT: ['missing', 'it does not exist'],
  EEXIST: ['exists', 'it exists already'],
  EACCES: ['forbidden', 'permission denied'],
  EPERM: ['forbidden', 'permission denied'],
  EROFS: ['forbidden', 'the file system is read-only'],
  ENOTDIR: ['not a folder', 'a part of the path is not a folder'],
  ENOTEMPTY: ['exists', 'the folder is not empty'],
  EISDIR: [undefined, 'it is a folder'],
  ENOSPC: [undefined, 'the disk is full'],
  EDQUOT: [undefined, 'the disk quota is used up'],
};

/** What node:fs says of a file of this machine, as an error of ours. */
export function localFileError(verb: string, path: string, error: unknown): Error {
  return translate(verb, path, error);
}

function translate(verb: string, path: string, error: unknown): Error {
  const [problem, reason] = problems[codeOf(error) ?? ''] ?? [undefined, (error as Error).message];
  return fileError(`Cannot ${verb} ${path}: ${reason}.`, problem, error);
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
