// The files of a folder that Spark has written: part-….parquet beside _SUCCESS and .part-….crc, in subfolders if it is partitioned.

import { glob } from '../../../files/glob.ts';
import { joinLocation } from '../../../files/location.ts';
import { statusOf } from '../../../files/read-file.ts';
import type { Files } from '../../../files/registry.ts';

/** Sorted; empty if there is no such folder. A file is itself. */
export async function parquetFilesIn(files: Files, location: string): Promise<string[]> {
  const status = await statusOf(files, location);
  if (status === undefined) return [];
  if (status.kind === 'file') return [location];
  const found = await glob(files, joinLocation(escaped(location), '**', '*.parquet'));
  const isHidden = (file: string) => /\/[._]/.test(file.slice(location.length));
  return found.filter((file) => !isHidden(file));
}

/** Characters of patterns in the name of the folder mean themselves. */
function escaped(location: string): string {
  return location.replace(/[\\*?[\]{}]/g, '\\$&');
}
