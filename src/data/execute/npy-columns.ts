// Several arrays of NumPy as one data set: row i of each is a value of sample i. Arrays are .npy files or members of .npz files.

import type { ReadHandle } from '../../files/file-system.ts';
import { dtypes, type TypedArray, type TypedArrayConstructor } from '../../tensor/dtype.ts';
import { elementsIn } from '../../tensor/tensor.ts';
import { dataFileError, type ElementFormat, type ElementRecord, type FormatFile } from '../formats/format.ts';
import { type NpyHeader, readNpyHeader } from '../formats/npy/npy-format.ts';
import { openNpzMember, splitMember } from '../formats/npy/npz-member.ts';

type Open = (location: string) => Promise<ReadHandle>;

interface Column {
  readonly name: string;
  readonly file: FormatFile;
  readonly header: NpyHeader;
}

/** Rows that are read at once. */
const blockRows = 1024;

/** `paths`: by column. Files are opened at the first use and stay open until close(). */
export function npyColumns(
  paths: Readonly<Record<string, string>>,
  open: Open,
): { format: ElementFormat; close(): Promise<void> } {
  let opening: Promise<Column[]> | undefined;
  const handles: ReadHandle[] = [];
  const columns = () => {
    opening ??= Promise.all(
      Object.entries(paths).map(async ([name, path]) => {
        const [location, member] = splitMember(path);
        const handle = await open(location);
        handles.push(handle);
        const file = member === undefined ? handle : await openNpzMember(handle, member);
        return { name, file, header: await readNpyHeader(file) };
      }),
    );
    return opening;
  };
  const format: ElementFormat = {
    name: 'npy',
    async index() {
      const [first, ...others] = await columns();
      const records = first?.header.shape[0] ?? 0;
      for (const { name, file, header } of others) {
        if (header.shape[0] === records) continue;
        throw dataFileError(
          file.location,
          `column "${name}" has ${header.shape[0]} rows, "${first?.name}" has ${records}. Each sample needs a row in every array.`,
        );
      }
      const blocks = Array.from({ length: Math.ceil(records / blockRows) }, (_, each) => each * blockRows);
      return { records, blocks: [...blocks, records] };
    },
    async read(_file, first, count) {
      const elements = Array.from({ length: count }, (): Record<string, ElementRecord[string]> => ({}));
      for (const { name, file, header } of await columns()) {
        const shape = header.shape.slice(1);
        const values = elementsIn(shape);
        const data = await readRows(file, header, first, count);
        for (const [row, element] of elements.entries()) {
          element[name] = { data: data.slice(row * values, (row + 1) * values), shape, dtype: header.dtype };
        }
      }
      return elements;
    },
  };
  const close = async () => {
    await opening?.catch(() => {});
    opening = undefined;
    for (const handle of handles.splice(0)) await handle.close();
  };
  return { format, close };
}

async function readRows(
  file: FormatFile,
  { dtype, shape, offset }: NpyHeader,
  first: number,
  count: number,
): Promise<TypedArray> {
  const { bytes, arrays } = dtypes[dtype];
  const values = elementsIn(shape.slice(1));
  const buffer = new Uint8Array(count * values * bytes);
  const start = offset + first * values * bytes;
  for (let done = 0; done < buffer.length; ) {
    const read = await file.read(buffer.subarray(done), start + done);
    if (read === 0)
      throw dataFileError(
        file.location,
        `the file ends in row ${first + Math.floor(done / (values * bytes))}.`,
      );
    done += read;
  }
  return new (arrays[0] as TypedArrayConstructor)(buffer.buffer, 0, count * values);
}
