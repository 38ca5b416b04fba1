// A dump: one rank's flight record as a JSON file for `horovod flight-report`: `rank-<n>.json`, and in an elastic job
// `rank-<n>.g<generation>.json`. What is in it is data of this rank alone; the report puts those of all ranks together.

import { randomBytes } from 'node:crypto';
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CollectiveRecord } from './flight-recorder.ts';

export const dumpFormat = 1;

export interface FlightDump {
  readonly format: typeof dumpFormat;
  /** Tells this job from others. */
  readonly job: string;
  readonly rank: number;
  readonly size: number;
  /** Of an elastic job. */
  readonly generation?: number | undefined;
  readonly host: string;
  readonly pid: number;
  /** Date.now(), and the host's monotonic clock of the records at that moment. */
  readonly atMs: number;
  readonly clockMs: number;
  /** Why it was written: 'failure', 'stall', 'signal', … */
  readonly reason: string;
  readonly error?: DumpedError | undefined;
  readonly step: number;
  readonly transport: string;
  readonly versions: Readonly<Record<string, string>>;
  readonly processSets: readonly { readonly id: number; readonly ranks: readonly number[] }[];
  readonly pending: readonly DumpedRequest[];
  /** What the other ranks were doing, as far as this one knew. */
  readonly others: readonly string[];
  readonly stragglers?: string | undefined;
  /** Collectives in all; `records` has the last of them. */
  readonly collectives: number;
  readonly records: readonly CollectiveRecord[];
}

export interface DumpedError {
  readonly code: string;
  readonly message: string;
  /** The rank it blames. */
  readonly rank?: number | undefined;
}

/** Asked for and not over. */
export interface DumpedRequest {
  readonly label: string;
  readonly kind: string;
  readonly name: string;
  readonly processSet: number;
  readonly waitedMs: number;
  /** Ranks that had not called it, as far as this one knew. */
  readonly missing: readonly number[];
}

export function dumpName({ rank, generation }: Pick<FlightDump, 'rank' | 'generation'>): string {
  return generation === undefined ? `rank-${rank}.json` : `rank-${rank}.g${generation}.json`;
}

export function isDumpName(name: string): boolean {
  return /^rank-\d+(\.g\d+)?\.json$/.test(name);
}

/** Whole or not at all. Throws what the file system says. */
export function writeDump(directory: string, dump: FlightDump): void {
  const path = join(directory, dumpName(dump));
  // A new file with a name that nobody can guess: in a directory of several users a link might be waiting for us.
  const unfinished = `${path}.${randomBytes(8).toString('hex')}.tmp`;
  try {
    writeFileSync(unfinished, encodeDump(dump), { mode: 0o600, flag: 'wx' });
    renameSync(unfinished, path);
  } catch (error) {
    rmSync(unfinished, { force: true });
    throw error;
  }
}

/** A record is one line, so that people can read and compare them with what they have. */
export function encodeDump({ records, ...rest }: FlightDump): string {
  const lines = records.map((record) => `  ${JSON.stringify(record)}`);
  return `${JSON.stringify(rest, undefined, 1).slice(0, -2)},\n "records": [\n${lines.join(',\n')}\n ]\n}\n`;
}
