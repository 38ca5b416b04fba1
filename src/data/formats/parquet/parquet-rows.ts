// What the footers of Parquet files say: how many rows there are.

import type { FileSystem } from '../../../files/file-system.ts';
import type { Files } from '../../../files/registry.ts';
import { parquetFormat } from './parquet-format.ts';

const parallelFiles = 8;

/** Checks that all files have these columns, and counts their rows. */
export async function countParquetRows(
  files: Files,
  locations: readonly string[],
  columns: readonly string[],
): Promise<number> {
  const format = await parquetFormat({
    columns: Object.fromEntries(columns.map((name) => [name, 'float32'] as const)),
  });
  let rows = 0;
  let next = 0;
  const work = async () => {
    for (let place = next++; place < locations.length; place = next++) {
      const location = locations[place] as string;
      const fileSystem: FileSystem = await files.fileSystem(location);
      await using handle = await fileSystem.open(location);
      const { records } = await format.index(handle);
      rows += records;
    }
  };
  await Promise.all(Array.from({ length: Math.min(parallelFiles, locations.length) }, work));
  return rows;
}
