// The files of rank 0: the log, a row for each setting tried, and the result, which another job of the same shape can
// use. A file that cannot be written is a warning: training matters more.

import { appendFileSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import type { Comparison } from './statistics.ts';
import type { TunableValue, TunableValues } from './tunables.ts';

type Warn = (text: string) => void;

/** CSV: what a sample was for, the settings, the time of a step and steps per second. */
export class TuningLog {
  readonly #path: string | undefined;
  readonly #warn: Warn;
  readonly #continues: boolean;
  #columns: readonly string[] | undefined;
  #isBroken = false;

  /** `continues`: what the file has stays, and another header follows it. */
  constructor(path: string | undefined, warn: Warn, continues = false) {
    this.#path = path;
    this.#warn = warn;
    this.#continues = continues;
  }

  /** The first call writes the header. */
  write(phase: string, columns: readonly string[], values: TunableValues, ms: number | undefined): void {
    if (this.#columns === undefined) {
      this.#columns = columns;
      const write = this.#continues ? appendFileSync : writeFileSync;
      this.#append(write, ['phase', ...columns.map(snakeCase), 'step_ms', 'steps_per_second']);
    }
    const figures = ms === undefined ? ['', ''] : [ms.toFixed(4), (1000 / ms).toFixed(4)];
    const cells = this.#columns.map((name) => String(values[name] ?? ''));
    this.#append(appendFileSync, [phase, ...cells, ...figures]);
  }

  #append(write: (path: string, text: string) => void, cells: readonly string[]): void {
    if (this.#path === undefined || this.#isBroken) return;
    try {
      write(this.#path, `${cells.join(',')}\n`);
    } catch (error) {
      this.#isBroken = true;
      this.#warn(
        `the log of autotune cannot be written (${(error as Error).message}); tuning goes on without it. Give ` +
          '--autotune-log-file a file in a directory that exists on the host of rank 0 and can be written to.',
      );
    }
  }
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** What a result was found for; it is of no use to other jobs. */
export interface JobShape {
  readonly version: string;
  readonly transport: string;
  readonly ranks: number;
  /** How many ranks each host has. */
  readonly hosts: readonly number[];
}

export interface SavedResult {
  readonly format: 1;
  readonly shape: JobShape;
  readonly values: TunableValues;
  readonly comparison?: Comparison | undefined;
}

/** No search goes beyond these; a file that does was changed by hand, and could keep all ranks waiting. */
const mostMs = 1000;
const mostBytes = 2 ** 40;

/** Undefined where there is none, or none that can be read; the latter is warned about. */
export function readResult(path: string, warn: Warn): SavedResult | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
      warn(
        `the result of autotune in ${path} cannot be read (${(error as Error).message}); tuning starts over.`,
      );
    }
    return undefined;
  }
  try {
    const value = JSON.parse(text) as SavedResult;
    if (value.format !== 1 || !isShape(value.shape) || !areValues(value.values))
      throw new TypeError('no result');
    return value;
  } catch {
    warn(
      `${path} is not an autotune result that this version can read; tuning starts over and will overwrite it.`,
    );
    return undefined;
  }
}

/** Whole or not at all: another job may be reading it. */
export function writeResult(path: string, result: SavedResult, warn: Warn): boolean {
  const beside = `${path}.${process.pid}.new`;
  try {
    writeFileSync(beside, `${JSON.stringify(result, null, 2)}\n`);
    renameSync(beside, path);
    return true;
  } catch (error) {
    rmSync(beside, { force: true });
    warn(`the result of autotune cannot be written to ${path}: ${(error as Error).message}.`);
    return false;
  }
}

/** Why a result does not fit this job; undefined where it does. */
export function misfit(result: SavedResult, shape: JobShape): string | undefined {
  const { shape: other } = result;
  if (other.version !== shape.version)
    return `it is of version ${other.version}, and this is ${shape.version}`;
  if (other.transport !== shape.transport)
    return `it is for the transport ${other.transport}, and this is ${shape.transport}`;
  if (other.ranks !== shape.ranks) return `it is for ${other.ranks} ranks, and there are ${shape.ranks}`;
  if (other.hosts.join() !== shape.hosts.join()) {
    return `it is for hosts with ${other.hosts.join(', ')} ranks, and these have ${shape.hosts.join(', ')}`;
  }
  return undefined;
}

function isShape(shape: JobShape | undefined): boolean {
  return (
    typeof shape?.version === 'string' &&
    typeof shape.transport === 'string' &&
    Number.isSafeInteger(shape.ranks) &&
    Array.isArray(shape.hosts)
  );
}

function areValues(values: TunableValues | undefined): boolean {
  if (typeof values !== 'object' || values === null) return false;
  return Object.entries(values).every(([name, value]: [string, TunableValue]) =>
    typeof value === 'number'
      ? value >= 0 && value <= (name.endsWith('Ms') ? mostMs : mostBytes)
      : ['string', 'boolean'].includes(typeof value),
  );
}
