// Files that live in memory: how ranks of one host share bytes without any addon. A memory file has no name
// from its first moment on (it is unlinked before it is filled), so that nothing is left behind however its
// owner ends; other processes of the same user reach it through /proc/<pid>/fd/<fd> while the owner holds it.
// Every page is really written at creation: a full file system is an error now, and never a SIGBUS later.
//
// A path comes from another process. It is opened only if it is the descriptor of a process of the job, and what is there is
// a memory file: a regular file of this user, without a name, of the size that it must have. Otherwise a peer could make
// this process write into any file that its user may write.

import { randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  openSync,
  statfsSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HorovodError } from '../errors.ts';

export interface MemoryFile {
  readonly fd: number;
  /** Where other processes of this user can open it as long as this one is open. */
  readonly path: string;
  /** Twice is fine. */
  close(): void;
}

export interface MemoryFileOptions {
  /** A directory of a memory file system; `defaultMemoryDirectory()` where left out. */
  readonly directory?: string | undefined;
  /** What the file is for; part of its name while it has one, and of error texts. */
  readonly label: string;
}

const pieceBytes = 1 << 20;

/** /dev/shm where it exists (Linux), else the directory for temporary files. */
export function defaultMemoryDirectory(): string {
  return existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
}

/** A new file of `bytes` zeros. Throws ERR_HVD_SHARED_MEMORY where the directory has no room for it. */
export function createMemoryFile(bytes: number, options: MemoryFileOptions): MemoryFile {
  const directory = options.directory ?? defaultMemoryDirectory();
  const name = join(directory, `horovod-${options.label}-${randomBytes(8).toString('hex')}`);
  // Asked before the file takes its share: afterwards the answer would be 0.
  const space = freeSpace(directory);
  let fd: number;
  try {
    fd = openSync(name, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600);
  } catch (error) {
    throw unusable(directory, bytes, options.label, space, error);
  }
  const hasName = !hasDescriptorPaths();
  try {
    if (!hasName) unlinkSync(name);
    writeZeros(fd, bytes);
  } catch (error) {
    closeSync(fd);
    if (hasName) unlinkSync(name);
    throw unusable(directory, bytes, options.label, space, error);
  }
  return hasName ? held(fd, name, name) : held(fd, `/proc/${process.pid}/fd/${fd}`);
}

export interface OpenOptions {
  /** Default: both. */
  readonly access?: 'read and write' | 'read' | undefined;
  /** The size that it must have; left out where the file itself says it and the caller compares. */
  readonly bytes?: number | undefined;
  /** The processes that may hold it; left out where the caller has found it in /proc by itself. */
  readonly pids?: readonly number[] | undefined;
}

/** Opens a memory file of another process by its `path`; ERR_HVD_SHARED_MEMORY for what is none. */
export function openMemoryFile(path: string, { access, bytes, pids }: OpenOptions = {}): MemoryFile {
  const isRead = access === 'read';
  checkPath(path, pids);
  let fd: number;
  try {
    // Without waiting for the other end, should it be a pipe.
    fd = openSync(path, (isRead ? constants.O_RDONLY : constants.O_RDWR) | constants.O_NONBLOCK);
  } catch (error) {
    throw new HorovodError(
      'ERR_HVD_SHARED_MEMORY',
      `cannot open ${path}, a memory file of another rank: ${(error as Error).message}. ` +
        'Its process has ended, or runs as another user or in another container.',
      { cause: error },
    );
  }
  const wrong = whatIsWrong(fd, isRead, bytes);
  if (wrong === undefined) return held(fd, path);
  closeSync(fd);
  throw notAMemoryFile(path, wrong);
}

function checkPath(path: string, pids: readonly number[] | undefined): void {
  // Where there is no /proc, memory files have names.
  if (!hasDescriptorPaths()) return;
  const match = /^\/proc\/([1-9]\d{0,9})\/fd\/\d{1,9}$/.exec(path);
  if (match === null) throw notAMemoryFile(path, 'this is not a descriptor of a process');
  if (pids !== undefined && !pids.includes(Number(match[1])))
    throw notAMemoryFile(path, `process ${match[1]} is not one of this job on this host`);
}

function whatIsWrong(fd: number, isRead: boolean, bytes: number | undefined): string | undefined {
  const stat = fstatSync(fd);
  const { uid, nlink, size } = stat;
  const user = process.geteuid?.() ?? uid;
  if (!stat.isFile()) return 'it is not a file';
  // Root looks at the jobs of everybody, with horovod status.
  if (uid !== user && !(isRead && user === 0))
    return `it belongs to user ${uid}, and this process to user ${user}`;
  if (nlink > 0 && hasDescriptorPaths()) return 'the file has a name';
  if (bytes !== undefined && size !== bytes) return `it has ${size} bytes instead of ${bytes}`;
  return undefined;
}

function notAMemoryFile(path: string, why: string): HorovodError {
  return new HorovodError(
    'ERR_HVD_SHARED_MEMORY',
    `${JSON.stringify(path)}, which another process of the job named as its memory file, was not opened: ${why}. ` +
      'Do all ranks run the same version of horovod, as the same user?',
  );
}

/** Whether a file without a name can be opened by others. Wine shows /proc of the system below it, but opens nothing there. */
export function hasDescriptorPaths(): boolean {
  return process.platform === 'linux' && existsSync('/proc/self/fd');
}

function held(fd: number, path: string, unlinkAtClose?: string): MemoryFile {
  let isOpen = true;
  return {
    fd,
    path,
    close() {
      if (!isOpen) return;
      isOpen = false;
      closeSync(fd);
      if (unlinkAtClose !== undefined) unlinkSync(unlinkAtClose);
    },
  };
}

function writeZeros(fd: number, bytes: number): void {
  const zeros = new Uint8Array(Math.min(bytes, pieceBytes));
  for (let at = 0; at < bytes; ) {
    // A short write is how a file system says that it is full; the next one throws.
    at += writeSync(fd, zeros, 0, Math.min(pieceBytes, bytes - at), at);
  }
}

function unusable(
  directory: string,
  bytes: number,
  label: string,
  space: string,
  cause: unknown,
): HorovodError {
  const reason = (cause as NodeJS.ErrnoException).code ?? String(cause);
  return new HorovodError(
    'ERR_HVD_SHARED_MEMORY',
    `cannot have ${inMebibytes(bytes)} of shared memory in ${directory} for "${label}" (${reason}); ` +
      `${space}. Enlarge it (containers: --shm-size), ` +
      'or name another memory file system with HOROVOD_SHM_DIR=….',
    { cause },
  );
}

function freeSpace(directory: string): string {
  try {
    const { bavail, bsize } = statfsSync(directory);
    return `${inMebibytes(bavail * bsize)} are free there`;
  } catch {
    return 'the directory cannot be used at all';
  }
}

function inMebibytes(bytes: number): string {
  const mebibytes = bytes / (1 << 20);
  return mebibytes >= 1 || bytes === 0 ? `${Number(mebibytes.toFixed(1))} MiB` : `${bytes} bytes`;
}
