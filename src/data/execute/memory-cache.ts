// cache('memory'): elements by the number of their record, so that later epochs neither read nor compute them again, in whatever
// order they come. It belongs to a dataset and lives as long as that.

import type { ElementCache } from './iteration.ts';
import type { Reader } from './reader.ts';
import type { Step } from './steps.ts';

export class MemoryCache {
  readonly #elements = new Map<number, unknown>();

  /** `reader` knows which record is at which position. */
  of(reader: Reader): ElementCache {
    const recordsOf = ({ epoch, positions }: Step) =>
      positions.map((position) => reader.recordAt(epoch, position));
    return {
      find: (step) => {
        const found: unknown[] = [];
        for (const record of recordsOf(step)) {
          if (!this.#elements.has(record)) return undefined;
          found.push(this.#elements.get(record));
        }
        return found;
      },
      keep: (step, rows, values) => {
        const records = recordsOf(step);
        for (const [place, row] of rows.entries()) this.#elements.set(records[row] as number, values[place]);
      },
    };
  }
}
