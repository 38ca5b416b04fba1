// Several arrays of NumPy as one file of rows, which exists in no place: row r has the bytes of row r of each array, one after
// the other. So arrays in files of their own are read, shuffled and batched like any other records.

import { dtypes } from '../../../tensor/dtype.ts';
import { elementsIn } from '../../../tensor/tensor.ts';
import {
  type BatchColumns,
  type ByteFormat,
  type ColumnLayout,
  type Decoder,
  dataFileError,
  type FormatFile,
} from '../format.ts';
import { plainStream, streamBlocks } from '../stream-blocks.ts';
import { type NpyHeader, npyDecoder, readNpyHeader } from './npy-format.ts';

/** One array: its name in elements, and the type and shape of a row. Plain data. */
export interface NpyColumn {
  readonly name: string;
  readonly dtype: NpyHeader['dtype'];
  /** Of one row. */
  readonly shape: readonly number[];
}

export interface NpyRows {
  readonly rows: number;
  readonly columns: readonly NpyColumn[];
  readonly file: FormatFile;
}

/** Arrays by name; all have the same number of rows. */
export async function npyRows(arrays: readonly (readonly [string, FormatFile])[]): Promise<NpyRows> {
  const parts: { file: FormatFile; at: number; rowBytes: number; offset: number }[] = [];
  const columns: NpyColumn[] = [];
  let total = 0;
  let rows: number | undefined;
  for (const [name, file] of arrays) {
    const header = await readNpyHeader(file);
    const [count = 0, ...shape] = header.shape;
    if (rows !== undefined && count !== rows) {
      const first = arrays[0]?.[1].location;
      throw dataFileError(file.location, `the array has ${count} rows, that of ${first} has ${rows}.`);
    }
    rows = count;
    const column = { name, dtype: header.dtype, shape };
    columns.push(column);
    const rowBytes = bytesOfRow(column);
    parts.push({ file, at: header.offset, rowBytes, offset: total });
    total += rowBytes;
  }
  const location = arrays.map(([, file]) => file.location).join(', ');
  if (total === 0) throw dataFileError(location, 'the rows of the arrays are empty.');
  const size = (rows ?? 0) * total;
  const read = async (target: Uint8Array, position: number): Promise<number> => {
    const end = Math.min(position + target.length, size);
    if (end <= position) return 0;
    const [first, last] = [Math.floor(position / total), Math.ceil(end / total)];
    const isWhole = first * total === position && last * total === end;
    const whole = isWhole ? target.subarray(0, end - position) : new Uint8Array((last - first) * total);
    await Promise.all(
      parts.map(async ({ file, at, rowBytes, offset }) => {
        const own = rowBytes === total ? whole : new Uint8Array((last - first) * rowBytes);
        await readWhole(file, own, at + first * rowBytes);
        if (own === whole) return;
        for (let row = 0; row < last - first; row += 1) {
          whole.set(own.subarray(row * rowBytes, (row + 1) * rowBytes), row * total + offset);
        }
      }),
    );
    if (!isWhole) target.set(whole.subarray(position - first * total, end - first * total));
    return end - position;
  };
  return { rows: rows ?? 0, columns, file: { location, size, read } };
}

/** Rows of these columns. */
export function npyRowsFormat(columns: readonly NpyColumn[]): ByteFormat {
  const rowBytes = columns.reduce((sum, column) => sum + bytesOfRow(column), 0);
  const split: ByteFormat['split'] = (chunk, place, ranges) => {
    ranges.clear();
    let at = 0;
    for (; at + rowBytes <= chunk.length; at += rowBytes) ranges.add(at, rowBytes);
    ranges.consumed = at;
    ranges.needed = rowBytes;
    if (place.isLast && at < chunk.length) throw dataFileError(place.location, 'the last row is cut off.');
  };
  return {
    name: 'npy',
    async index({ size }) {
      const records = size / rowBytes;
      return { records, offsets: Float64Array.from({ length: records + 1 }, (_, row) => row * rowBytes) };
    },
    split,
    stream: (file, options = {}) =>
      streamBlocks(file.location, plainStream(file, options.signal), split, options),
  };
}

export function npyRowsDecoder(columns: readonly NpyColumn[]): Decoder {
  let offset = 0;
  const parts = columns.map((column) => {
    const { name, dtype, shape } = column;
    const bytes = bytesOfRow(column);
    const part = { decoder: npyDecoder(name, { dtype, shape: [1, ...shape], offset: 0 }), at: offset, bytes };
    offset += bytes;
    return part;
  });
  return {
    columns: parts.map(({ decoder }) => decoder.columns?.[0] as ColumnLayout),
    element: (bytes, start) =>
      Object.assign({}, ...parts.map((each) => each.decoder.element(bytes, start + each.at, each.bytes))),
    fill(bytes, start, _length, row, target) {
      for (const [place, { decoder, at, bytes: length }] of parts.entries()) {
        decoder.fill(bytes, start + at, length, row, [target[place] as BatchColumns[number]]);
      }
    },
  };
}

function bytesOfRow({ dtype, shape }: NpyColumn): number {
  return elementsIn(shape) * dtypes[dtype].bytes;
}

async function readWhole(file: FormatFile, target: Uint8Array, position: number): Promise<void> {
  for (let filled = 0; filled < target.length; ) {
    const count = await file.read(target.subarray(filled), position + filled);
    if (count === 0) throw dataFileError(file.location, `the file ends at byte ${position + filled}.`);
    filled += count;
  }
}
