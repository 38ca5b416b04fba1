// NumPy's arrays: .npy files, whose rows are samples. A file is a magic string, a version, the length of a header, the header (a
// Python literal such as {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }) and the values.

import { HorovodError } from '../../../errors.ts';
import { type DType, dtypes } from '../../../tensor/dtype.ts';
import { elementsIn, isShape } from '../../../tensor/tensor.ts';
import {
  type BatchColumns,
  type ByteFormat,
  type ColumnLayout,
  type Decoder,
  dataFileError,
  type FormatFile,
} from '../format.ts';
import { plainStream, streamBlocks } from '../stream-blocks.ts';

export interface NpyHeader {
  readonly dtype: DType;
  /** The first number counts rows. */
  readonly shape: readonly number[];
  /** Where the values begin. */
  readonly offset: number;
}

const dtypeOfDescription: Readonly<Record<string, DType>> = {
  '|u1': 'uint8',
  '|i1': 'int8',
  '|b1': 'bool',
  '<u2': 'uint16',
  '<i2': 'int16',
  '<i4': 'int32',
  '<i8': 'int64',
  '<f2': 'float16',
  '<f4': 'float32',
  '<f8': 'float64',
};

export async function readNpyHeader(file: FormatFile): Promise<NpyHeader> {
  const head = new Uint8Array(Math.min(file.size, 1 << 16));
  let filled = 0;
  while (filled < head.length) {
    const count = await file.read(head.subarray(filled), filled);
    if (count === 0) break;
    filled += count;
  }
  return parseNpyHeader(head.subarray(0, filled), file);
}

function parseNpyHeader(head: Uint8Array, { location, size }: { location: string; size: number }): NpyHeader {
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  const isNpy = head.length >= 12 && Buffer.from(head.subarray(0, 6)).toString('latin1') === '\x93NUMPY';
  if (!isNpy) throw dataFileError(location, 'this is not a .npy file.');
  const start = head[6] === 1 ? 10 : 12;
  const length = head[6] === 1 ? view.getUint16(8, true) : view.getUint32(8, true);
  const offset = start + length;
  if (offset > head.length) throw dataFileError(location, 'the header of the .npy file is cut off.');
  const text = Buffer.from(head.subarray(start, offset)).toString('latin1');
  const description = /'descr':\s*'([^']*)'/.exec(text)?.[1];
  const shapeText = /'shape':\s*\(([^)]*)\)/.exec(text)?.[1];
  const shape = shapeText?.split(',').flatMap((each) => (each.trim() === '' ? [] : [Number(each)]));
  if (description === undefined || !isShape(shape)) {
    throw dataFileError(location, `the header of the .npy file is not understood: ${text.trim()}`);
  }
  const dtype = dtypeOfDescription[description];
  if (dtype === undefined) {
    const known = Object.keys(dtypeOfDescription).join(', ');
    throw dataFileError(
      location,
      `dtype ${description} is not supported (${known} are). Convert the array with astype().`,
    );
  }
  if (/'fortran_order':\s*True/.test(text) && shape.length > 1) {
    throw dataFileError(location, 'the array is in Fortran order. Save it with np.ascontiguousarray().');
  }
  if (shape.length === 0) throw dataFileError(location, 'the array has no dimensions, so it has no rows.');
  const end = offset + elementsIn(shape) * dtypes[dtype].bytes;
  if (end > size)
    throw dataFileError(location, `the file is cut off: it has ${size} bytes instead of ${end}.`);
  return { dtype, shape, offset };
}

/** The rows of an array whose header was read. */
export function npyFormat({ dtype, shape, offset }: NpyHeader): ByteFormat {
  const [rows = 0, ...rest] = shape;
  const rowBytes = elementsIn(rest) * dtypes[dtype].bytes;
  const split: ByteFormat['split'] = (chunk, place, ranges) => {
    ranges.clear();
    // A stream begins with the header.
    let at = place.offset < offset ? offset - place.offset : 0;
    let row = rowBytes === 0 ? 0 : (place.offset + at - offset) / rowBytes;
    for (; rowBytes > 0 && row < rows && at + rowBytes <= chunk.length; at += rowBytes, row++)
      ranges.add(at, rowBytes);
    ranges.consumed = Math.min(row === rows ? chunk.length : at, chunk.length);
    ranges.needed = at > chunk.length ? at : rowBytes;
    if (place.offset < offset && ranges.count === 0 && row < rows) {
      ranges.consumed = 0;
      ranges.needed = offset + rowBytes;
    }
    if (place.isLast && row < rows && rowBytes > 0) {
      throw dataFileError(place.location, `the file ends in row ${row} of ${rows}.`);
    }
  };
  return {
    name: 'npy',
    async index() {
      return {
        records: rows,
        offsets: Float64Array.from({ length: rows + 1 }, (_, row) => offset + row * rowBytes),
      };
    },
    split,
    stream: (file, options = {}) =>
      streamBlocks(file.location, plainStream(file, options.signal), split, options),
  };
}

/** A row is one value of the element, of this name. */
export function npyDecoder(name: string, { dtype, shape }: NpyHeader): Decoder {
  const rest = shape.slice(1);
  const column: ColumnLayout = { name, dtype, shape: rest, elements: elementsIn(rest) };
  const rowBytes = column.elements * dtypes[dtype].bytes;
  const copy = (bytes: Uint8Array, start: number, length: number, row: number, target: BatchColumns) => {
    if (length !== rowBytes)
      throw new HorovodError('ERR_HVD_DATA_FILE', `A row has ${length} bytes instead of ${rowBytes}.`);
    const { buffer, byteOffset, byteLength } = target[0] as BatchColumns[number];
    new Uint8Array(buffer, byteOffset, byteLength).set(bytes.subarray(start, start + length), row * rowBytes);
  };
  return {
    columns: [column],
    fill: copy,
    element(bytes, start, length) {
      const kind = dtypes[dtype].arrays[0];
      const data = new (kind as NonNullable<typeof kind>)(column.elements);
      copy(bytes, start, length, 0, [data]);
      return { [name]: { data, shape: rest, dtype } };
    },
  };
}
