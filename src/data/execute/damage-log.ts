// Says once of each damaged record that was left out (onCorrupt: 'skip') where it is. After the first hundred they are only counted:
// a file that is damaged all over would fill the log.

import type { Log } from '../../console/log.ts';
import { shownLocation } from '../../files/location.ts';
import type { DamagedRecord } from './work.ts';

const maxLines = 100;

export class DamageLog {
  readonly #seen = new Set<string>();

  note(records: readonly DamagedRecord[], log: () => Log): void {
    for (const { url, record, byte } of records) {
      if (this.#seen.size >= maxLines) return;
      const where = record === null ? `byte ${byte}` : `record ${record} (byte ${byte})`;
      const text = `${shownLocation(url)}: ${where} is damaged and left out, because of onCorrupt: 'skip'.`;
      if (this.#seen.has(text)) continue;
      this.#seen.add(text);
      const last =
        this.#seen.size < maxLines ? '' : ' Further damaged records are only counted: see metrics().';
      log().write('warning', `${text}${last}`);
    }
  }
}
