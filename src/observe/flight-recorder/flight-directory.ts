// Where a rank leaves its flight record: the directory the user has named, or one for this job below the temporary
// directory, of which the newest few are kept. Nothing is created before there is something to write. Others may be able
// to write in the user's directory too, so no link in it is followed.

import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  futimesSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { isDumpName } from './flight-dump.ts';

/** Jobs whose records are kept below the temporary directory. */
const keptJobs = 20;
/** Generations of an elastic job whose records are kept. */
const keptGenerations = 20;

export interface FlightDirectory {
  readonly job: string;
  readonly path: string;
  /** Below this all jobs have theirs, and old ones are removed; undefined: the user's own directory. */
  readonly parent: string | undefined;
  /** Of an elastic job: its ranks are others in each. All generations have the same directory. */
  readonly generation?: number | undefined;
}

/** Undefined: no records are to be written. `given` is HOROVOD_FLIGHT_DIR. */
export function flightDirectory(
  given: string | undefined,
  jobName: string,
  { temporary = tmpdir(), generation }: { temporary?: string; generation?: number | undefined } = {},
): FlightDirectory | undefined {
  if (given === 'none') return undefined;
  const job = jobName.replace(/[^\w.-]/g, '-').slice(0, 80);
  const common = { job, ...(generation === undefined ? {} : { generation }) };
  if (given !== undefined && given !== '') return { ...common, path: resolve(given), parent: undefined };
  const parent = join(temporary, `horovod-flight-${ownId()}`);
  return { ...common, path: join(parent, job), parent };
}

/** Makes it, for this user alone where it is ours to make. Throws what the file system says. */
export function openFlightDirectory({ path, parent }: FlightDirectory): void {
  if (parent === undefined) {
    makeDirectory(path, 0o777);
    return;
  }
  makeDirectory(parent, 0o700);
  // The temporary directory is everybody's: somebody else may have been there first, with plans for our files.
  const found = lstatSync(parent);
  // Windows has neither owners nor modes that Node shows, and a temporary directory for each user.
  const isOurs =
    process.getuid === undefined || (found.uid === process.getuid() && (found.mode & 0o022) === 0);
  if (!found.isDirectory() || !isOurs) throw new Error(`${parent} is not a directory of this user alone`);
  if (makeDirectory(path, 0o700)) prune(parent, path);
}

/** With those above it; false: it was there. Node's own way never ends where the system says ENOENT for good, as in /proc. */
function makeDirectory(path: string, mode: number): boolean {
  const above = dirname(path);
  if (above !== path && !existsSync(above)) makeDirectory(above, mode);
  try {
    mkdirSync(path, mode);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // Other ranks make it too.
    if (code === 'EEXIST' && statSync(path).isDirectory()) return false;
    throw error;
  }
}

/** Every rank that looks here writes its record. The directory is open. */
export function askForDumps(directory: FlightDirectory): void {
  const path = askedFile(directory);
  const { O_WRONLY, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants;
  let fd: number;
  try {
    fd = openSync(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600);
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'ELOOP' ? notOurs(path) : error;
  }
  try {
    const file = fstatSync(fd);
    if (!file.isFile() || file.nlink !== 1) throw notOurs(path);
    const now = new Date();
    futimesSync(fd, now, now);
  } finally {
    closeSync(fd);
  }
}

/** When that was last done, as the file system's clock says; 0: never. */
export function askedAtMs(directory: FlightDirectory): number {
  const file = lstatSync(askedFile(directory), { throwIfNoEntry: false });
  return file?.isFile() ? file.mtimeMs : 0;
}

function notOurs(path: string): Error {
  return new Error(`${path} is a link or no plain file: somebody else may have put it there`);
}

/** The user's own directory may be that of several jobs. */
function askedFile({ path, job, generation }: FlightDirectory): string {
  return join(path, generation === undefined ? `asked-${job}` : `asked-${job}.g${generation}`);
}

/** The ranks that have left a record here after `sinceMs`. */
export function dumpsIn({ path }: FlightDirectory, sinceMs: number): string[] {
  try {
    return readdirSync(path).filter(
      (name) => isDumpName(name) && statSync(join(path, name)).mtimeMs >= sinceMs,
    );
  } catch {
    return [];
  }
}

/** Removes what generations long before this one have left. What cannot be removed, because other ranks do just now, stays. */
export function pruneGenerations({ path, generation = 0 }: FlightDirectory): void {
  if (generation <= keptGenerations) return;
  try {
    for (const name of readdirSync(path)) {
      const of = Number(/^(?:rank-\d+|asked-[\w.-]+)\.g(\d+)(?:\.json)?$/.exec(name)?.[1] ?? generation);
      if (of <= generation - keptGenerations) rmSync(join(path, name), { force: true });
    }
  } catch {
    // The next one tries again.
  }
}

/** Removes all but the newest. What cannot be removed, because somebody else does just now, stays. */
function prune(parent: string, own: string): void {
  try {
    removeOldest(parent, own);
  } catch {
    // The next job tries again.
  }
}

function removeOldest(parent: string, own: string): void {
  const jobs = readdirSync(parent)
    .map((name) => join(parent, name))
    .filter((path) => path !== own)
    .map((path) => ({ path, changedAtMs: statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0 }))
    .sort((a, b) => b.changedAtMs - a.changedAtMs);
  for (const { path } of jobs.slice(keptJobs - 1)) rmSync(path, { recursive: true, force: true });
}

function ownId(): string {
  return String(process.getuid?.() ?? userInfo().username);
}
