// Reads the dumps of a directory: those of one job, the newest where there are several. What cannot be read is a note,
// not an end: a rank that died while it wrote is what such reports are about.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { HorovodError } from '../../../errors.ts';
import { dumpFormat, type FlightDump, isDumpName } from '../flight-dump.ts';

export interface LoadedDumps {
  /** By rank. */
  readonly dumps: readonly FlightDump[];
  readonly notes: readonly string[];
}

/** Throws where there is nothing to report on. `wanted`: the generation of an elastic job; undefined: the last one. */
export function loadDumps(directories: readonly string[], wanted?: number): LoadedDumps {
  const notes: string[] = [];
  const found: FlightDump[] = [];
  for (const directory of directories) {
    for (const name of namesIn(directory)) {
      const path = join(directory, name);
      const dump = readDump(path, notes);
      if (dump !== undefined) found.push(dump);
    }
  }
  if (found.length === 0) {
    const where = directories.join(' and ');
    const problem =
      notes.length === 0
        ? `there is no flight record (rank-<n>.json) in ${where}.`
        : `there is no readable flight record in ${where}: ${notes.join(' ')}`;
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${problem} Ranks write flight records when a job fails or stalls, or on SIGUSR2; horovodrun prints the directory.`,
    );
  }
  const newest = found.reduce((a, b) => (b.atMs > a.atMs ? b : a));
  const others = new Set(found.filter(({ job }) => job !== newest.job).map(({ job }) => job));
  if (others.size > 0) {
    notes.push(
      `Skipped flight records of ${others.size === 1 ? 'another job' : 'other jobs'} (${[...others].join(', ')}). This report is about the newest job, ${newest.job}.`,
    );
  }
  const own = found.filter(({ job }) => job === newest.job);
  const generations = [...new Set(own.map(({ generation = 0 }) => generation))].sort((a, b) => a - b);
  const chosen = wanted ?? generations.at(-1);
  const rest = generations.filter((each) => each !== chosen);
  if (chosen === undefined || !generations.includes(chosen))
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `there is no flight record of generation ${chosen}; there are some of ${generations.join(', ')}.`,
    );
  if (rest.length > 0)
    notes.push(`There are flight records of other generations: --generation ${rest.join(', ')}.`);
  const byRank = new Map<number, FlightDump>();
  for (const dump of own) {
    if ((dump.generation ?? 0) !== chosen) continue;
    const known = byRank.get(dump.rank);
    if (known === undefined || dump.atMs > known.atMs) byRank.set(dump.rank, dump);
  }
  return { dumps: [...byRank.values()].sort((a, b) => a.rank - b.rank), notes };
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory).filter(isDumpName);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    const what =
      code === 'ENOENT'
        ? 'there is no such directory'
        : code === 'ENOTDIR'
          ? 'it is not a directory'
          : String(code);
    throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', `${directory}: ${what}.`);
  }
}

function readDump(path: string, notes: string[]): FlightDump | undefined {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    notes.push(`Skipped ${path}: ${(error as Error).message}.`);
    return undefined;
  }
  if (isDump(value)) return value;
  const { format } = (value ?? {}) as { format?: unknown };
  const isOther = typeof format === 'number' && format !== dumpFormat;
  notes.push(
    `Skipped ${path}: it ${isOther ? 'was written by another version of horovod' : 'is not a flight record'}.`,
  );
  return undefined;
}

/** What the report relies on; the rest is shown as it is. */
function isDump(value: unknown): value is FlightDump {
  if (typeof value !== 'object' || value === null) return false;
  const dump = value as Record<string, unknown>;
  return (
    dump['format'] === dumpFormat &&
    (['rank', 'size', 'pid', 'atMs', 'clockMs', 'step', 'collectives'] as const).every(
      (key) => typeof dump[key] === 'number',
    ) &&
    (dump['generation'] === undefined || typeof dump['generation'] === 'number') &&
    (['job', 'host', 'reason'] as const).every((key) => typeof dump[key] === 'string') &&
    (['processSets', 'pending', 'others'] as const).every((key) => Array.isArray(dump[key])) &&
    Array.isArray(dump['records']) &&
    dump['records'].every(isRecord)
  );
}

function isRecord(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const record = value as Record<string, unknown>;
  return (
    (['sequence', 'processSet', 'submittedAtMs', 'finishedAtMs'] as const).every(
      (key) => typeof record[key] === 'number',
    ) &&
    (['kind', 'name', 'state'] as const).every((key) => typeof record[key] === 'string') &&
    Array.isArray(record['shapes']) &&
    record['shapes'].every(Array.isArray)
  );
}
