// Parquet files, read by hyparquet, an optional peer dependency without dependencies of its own. Row groups are the blocks. It
// decompresses snappy and gzip.

import { gunzipSync } from 'node:zlib';
import { HorovodError } from '../../../errors.ts';
import { type DType, dtypes, type TypedArray } from '../../../tensor/dtype.ts';
import {
  dataFileError,
  type ElementFormat,
  type ElementRecord,
  type ElementValue,
  type FormatFile,
} from '../format.ts';

export interface ParquetOptions {
  /** The columns that are read, and their types. A column of lists becomes a tensor of one dimension. */
  readonly columns: Readonly<Record<string, DType | 'string'>>;
}

/** Loads hyparquet. */
export async function parquetFormat({ columns }: ParquetOptions): Promise<ElementFormat> {
  const parquet = await loadHyparquet();
  const names = Object.keys(columns);
  const metadataOf = async (file: FormatFile) => {
    try {
      return await parquet.parquetMetadataAsync(bufferOf(file));
    } catch (cause) {
      throw dataFileError(file.location, `this is not a Parquet file: ${(cause as Error).message}.`, cause);
    }
  };
  return {
    name: 'parquet',
    async index(file) {
      const metadata = await metadataOf(file);
      const present = parquet.parquetSchema(metadata).children.map(({ element }) => element.name);
      const missing = names.filter((name) => !present.includes(name));
      if (missing.length > 0) {
        throw dataFileError(
          file.location,
          `there is no column ${missing.join(', ')}. The file has ${present.join(', ')}.`,
        );
      }
      const blocks = [0];
      for (const { num_rows: rows } of metadata.row_groups)
        blocks.push((blocks.at(-1) as number) + Number(rows));
      return { records: blocks.at(-1) as number, blocks };
    },
    async read(file, first, count) {
      let rows: Record<string, unknown>[];
      try {
        rows = await parquet.parquetReadObjects({
          file: bufferOf(file),
          columns: names,
          rowStart: first,
          rowEnd: first + count,
          compressors: { GZIP: (input) => gunzipSync(input) },
        });
      } catch (cause) {
        if (HorovodError.is(cause)) throw cause;
        const text = `rows ${first} to ${first + count} cannot be read: ${(cause as Error).message}.`;
        throw dataFileError(file.location, text, cause);
      }
      if (rows.length !== count) throw dataFileError(file.location, `row ${first + rows.length} is missing.`);
      return rows.map((row, i): ElementRecord => {
        const values = Object.entries(columns).map(([name, dtype]): [string, ElementValue] => {
          const value = elementValue(row[name], dtype);
          if (value !== undefined) return [name, value];
          const text = `column ${JSON.stringify(name)} of row ${first + i} has ${shown(row[name])}, which is not ${dtype}.`;
          throw dataFileError(file.location, text);
        });
        return Object.fromEntries(values);
      });
    },
  };
}

function elementValue(value: unknown, dtype: DType | 'string'): ElementValue | undefined {
  if (dtype === 'string') return typeof value === 'string' || value instanceof Uint8Array ? value : undefined;
  const isList = Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
  const list = isList ? Array.from(value as ArrayLike<unknown>) : [value];
  const kind = dtypes[dtype].arrays[0];
  const data = new (kind as NonNullable<typeof kind>)(list.length);
  for (const [i, each] of list.entries()) if (!store(data, i, each, dtype)) return undefined;
  return { data, shape: isList ? [list.length] : [], dtype };
}

/** Whether the value is one of this type, exactly; floats may be rounded. */
function store(data: TypedArray, i: number, value: unknown, dtype: DType): boolean {
  const number = typeof value === 'boolean' ? Number(value) : value;
  if (dtype === 'float16' || dtype === 'bfloat16') return false;
  if (dtype === 'int64') {
    if (typeof number !== 'bigint' && !Number.isSafeInteger(number)) return false;
    (data as BigInt64Array)[i] = BigInt(number as number);
    return true;
  }
  if (typeof number !== 'number' && typeof number !== 'bigint') return false;
  data[i] = Number(number);
  return dtype === 'float32' || dtype === 'float64' || data[i] === Number(number);
}

/** hyparquet asks for ranges of bytes. */
function bufferOf(file: FormatFile): {
  byteLength: number;
  slice(start: number, end?: number): Promise<ArrayBuffer>;
} {
  return {
    byteLength: file.size,
    async slice(start, end = file.size) {
      const bytes = new Uint8Array(Math.max(0, end - start));
      for (let filled = 0; filled < bytes.length; ) {
        const count = await file.read(bytes.subarray(filled), start + filled);
        if (count === 0) throw dataFileError(file.location, `the file ends at byte ${start + filled}.`);
        filled += count;
      }
      return bytes.buffer;
    },
  };
}

async function loadHyparquet(): Promise<typeof import('hyparquet')> {
  try {
    return await import('hyparquet');
  } catch (cause) {
    throw new HorovodError(
      'ERR_HVD_UNSUPPORTED',
      'Parquet files are read by the package hyparquet, which is not installed. Run npm install hyparquet.',
      { cause },
    );
  }
}

function shown(value: unknown): string {
  return typeof value === 'bigint' ? String(value) : (JSON.stringify(value) ?? String(value));
}
