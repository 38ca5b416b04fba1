// cache('memory'): elements by the number of their record, so that later epochs neither read nor compute them again, in whatever
// order they come. It belongs to a dataset and lives as long as that.

import type { ElementCache } from './iteration.ts';
import type { Reader } from './reader.ts';
import type { Step } from './steps.ts';

/** What a dataset keeps elements in. */
export interface CacheStore {
  /** For one run. `reader` knows which record is at which position. */
  open(reader: Reader): ElementCache & { close(): void };
}

export class MemoryCache implements CacheStore {
  /** Of each record, all elements that it gave: none or several behind filter() and flatMap(). */
  readonly #elements = new Map<number, readonly unknown[]>();

  open(reader: Reader): ElementCache & { close(): void } {
    return {
      find: (step) => {
        const found: (readonly unknown[])[] = [];
        for (const record of recordsOf(step, reader)) {
          const elements = this.#elements.get(record);
          if (elements === undefined) return undefined;
          found.push(elements);
        }
        return flattened(found);
      },
      keep: (step, rows, values) => {
        const records = recordsOf(step, reader);
        for (const [row, elements] of byRow(records.length, rows, values).entries()) {
          this.#elements.set(records[row] as number, elements);
        }
      },
      close() {},
    };
  }
}

/** The numbers of the records of a step. */
export function recordsOf({ epoch, positions }: Step, reader: Reader): number[] {
  return positions.map((position) => reader.recordAt(epoch, position));
}

/** The elements that each row gave. */
export function byRow(count: number, rows: readonly number[], values: readonly unknown[]): unknown[][] {
  const lists: unknown[][] = Array.from({ length: count }, () => []);
  for (const [place, row] of rows.entries()) lists[row]?.push(values[place]);
  return lists;
}

export function flattened(lists: readonly (readonly unknown[])[]): { values: unknown[]; rows: number[] } {
  const [values, rows]: [unknown[], number[]] = [[], []];
  for (const [row, list] of lists.entries()) {
    for (const value of list) {
      values.push(value);
      rows.push(row);
    }
  }
  return { values, rows };
}
