// CSV files: lines of fields, numbers straight into typed arrays. Fields may be quoted ("a ""b"" c"). The first line has the
// names of the columns, unless the options give them.

import { HorovodError } from '../../../errors.ts';
import { type DType, dtypes } from '../../../tensor/dtype.ts';
import { describe } from '../../../tensor/tensor.ts';
import {
  type BatchColumns,
  type ByteFormat,
  type ColumnLayout,
  type Decoder,
  dataFileError,
  type ElementValue,
  type FormatFile,
} from '../format.ts';
import { linesFormat } from '../lines/lines-format.ts';

export interface CsvOptions {
  /** The columns that are read, by name; all others are passed over. */
  readonly columns: Readonly<Record<string, DType | 'string'>>;
  /** True (default): the first line has the names. A list: these are the names, and the first line is data. */
  readonly header?: boolean | readonly string[];
  /** One character. Default ','. */
  readonly delimiter?: string;
  /** Quoted fields may contain line ends. Default false, which is faster. */
  readonly quotedNewlines?: boolean;
}

const quote = 34;

/** An index has the names of the file's columns. */
export function csvFormat(options: CsvOptions): ByteFormat {
  const { header = true, quotedNewlines = false } = options;
  const lines = linesFormat({ hasHeader: header === true, skipsBlank: true, quotedNewlines });
  return {
    ...lines,
    name: 'csv',
    async index(file) {
      const columns = await csvHeader(file, options);
      try {
        csvDecoder(options, columns);
      } catch (error) {
        throw HorovodError.is(error) && error.code === 'ERR_HVD_DATA_FILE'
          ? dataFileError(file.location, error.detail)
          : error;
      }
      return { ...(await lines.index(file)), columns };
    },
  };
}

/** Names of all columns of a file, in order: from its first line, or as the options say. */
export async function csvHeader(file: FormatFile, options: CsvOptions): Promise<readonly string[]> {
  const { header = true } = options;
  if (Array.isArray(header)) return header;
  if (header === false) return Object.keys(options.columns);
  const lines = linesFormat({ quotedNewlines: options.quotedNewlines ?? false });
  for await (const { bytes, starts, lengths } of lines.stream(file, { blockBytes: 1 << 16 })) {
    const [start = 0, length = 0] = [starts[0], lengths[0]];
    const fields = new Fields(delimiterOf(options));
    fields.split(bytes, start, length);
    const names = Array.from({ length: fields.count }, (_, i) => fields.text(bytes, i));
    // Spreadsheets begin a file with a byte order mark.
    return names.map((name, i) => (i === 0 ? name.replace(/^\ufeff/, '') : name));
  }
  throw dataFileError(
    file.location,
    'the file is empty; its first line should have the names of the columns.',
  );
}

/** `header`: the names of all columns of the file, from csvHeader(). */
export function csvDecoder(options: CsvOptions, header: readonly string[]): Decoder {
  const columns = Object.entries(options.columns).map(([name, dtype]) => {
    const at = header.indexOf(name);
    if (at < 0) {
      throw new HorovodError(
        'ERR_HVD_DATA_FILE',
        `there is no column ${JSON.stringify(name)}. It has ${header.map((each) => JSON.stringify(each)).join(', ')}.`,
      );
    }
    if (
      dtype !== 'string' &&
      (!Object.hasOwn(dtypes, dtype) || dtype === 'float16' || dtype === 'bfloat16')
    ) {
      throw new HorovodError(
        'ERR_HVD_INVALID_ARGUMENT',
        `csvDataset(): column ${name} cannot be ${describe(dtype)}.`,
      );
    }
    return { name, dtype, at };
  });
  const fields = new Fields(delimiterOf(options));
  const read = (bytes: Uint8Array, start: number, length: number) => {
    fields.split(bytes, start, length);
    if (fields.count !== header.length) {
      const text = Buffer.from(bytes.subarray(start, start + Math.min(length, 60))).toString();
      throw new HorovodError(
        'ERR_HVD_DATA_FILE',
        `the line has ${fields.count} fields instead of ${header.length}: ${text}${length > 60 ? '…' : ''}`,
      );
    }
  };
  const isNumeric = columns.every(({ dtype }) => dtype !== 'string');
  return {
    columns: isNumeric
      ? columns.map(
          ({ name, dtype }): ColumnLayout => ({ name, dtype: dtype as DType, shape: [], elements: 1 }),
        )
      : null,
    element(bytes, start, length) {
      read(bytes, start, length);
      const values = columns.map(({ name, dtype, at }): [string, ElementValue] => {
        if (dtype === 'string') return [name, fields.text(bytes, at)];
        const kind = dtypes[dtype].arrays[0];
        const data = new (kind as NonNullable<typeof kind>)(1);
        store(data, 0, dtype, fields.number(bytes, at), name, () => fields.text(bytes, at));
        return [name, { data, shape: [], dtype }];
      });
      return Object.fromEntries(values);
    },
    fill(bytes, start, length, row, target: BatchColumns) {
      read(bytes, start, length);
      for (const [i, { name, dtype, at }] of columns.entries()) {
        store(target[i] as BatchColumns[number], row, dtype as DType, fields.number(bytes, at), name, () =>
          fields.text(bytes, at),
        );
      }
    },
  };
}

const ranges: Readonly<Partial<Record<DType, readonly [number, number]>>> = {
  bool: [0, 1],
  uint8: [0, 255],
  int8: [-128, 127],
  uint16: [0, 65_535],
  int16: [-32_768, 32_767],
  int32: [-(2 ** 31), 2 ** 31 - 1],
  int64: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
};

/** An empty field is NaN in a column of floats, and an error in one of integers. */
function store(
  array: BatchColumns[number],
  row: number,
  dtype: DType,
  value: number,
  name: string,
  textOf: () => string,
): void {
  const range = ranges[dtype];
  const text = Number.isNaN(value) ? textOf().trim() : '';
  const isGood =
    range === undefined
      ? !Number.isNaN(value) || text === '' || /^nan$/i.test(text)
      : Number.isInteger(value) && value >= range[0] && value <= range[1];
  if (!isGood) {
    throw new HorovodError(
      'ERR_HVD_DATA_FILE',
      `column ${JSON.stringify(name)} has ${JSON.stringify(textOf())}, which is not ${dtype}.`,
    );
  }
  array[row] = (dtype === 'int64' ? BigInt(value) : value) as never;
}

/** The fields of one line. */
class Fields {
  count = 0;
  readonly #delimiter: number;
  readonly #starts: number[] = [];
  readonly #ends: number[] = [];

  constructor(delimiter: number) {
    this.#delimiter = delimiter;
  }

  split(bytes: Uint8Array, start: number, length: number): void {
    const end = start + length;
    let count = 0;
    let at = start;
    while (true) {
      this.#starts[count] = at;
      if (bytes[at] === quote && at < end) {
        for (at++; at < end; at++) {
          if (bytes[at] !== quote) continue;
          if (at + 1 < end && bytes[at + 1] === quote) at++;
          else break;
        }
      }
      while (at < end && bytes[at] !== this.#delimiter) at++;
      this.#ends[count++] = at;
      if (at >= end) break;
      at++;
    }
    this.count = count;
  }

  text(bytes: Uint8Array, i: number): string {
    const raw = Buffer.from(bytes.subarray(this.#starts[i], this.#ends[i])).toString();
    return raw.startsWith('"') && raw.endsWith('"') && raw.length > 1
      ? raw.slice(1, -1).replaceAll('""', '"')
      : raw;
  }

  /** NaN: it is no number. */
  number(bytes: Uint8Array, i: number): number {
    const [start, end] = [this.#starts[i] as number, this.#ends[i] as number];
    let at = start;
    const isNegative = bytes[at] === 45;
    if (isNegative) at++;
    let value = 0;
    const firstDigit = at;
    // Up to 15 digits are exact.
    for (; at < end && at - firstDigit < 15; at++) {
      const digit = (bytes[at] as number) - 48;
      if (digit < 0 || digit > 9) break;
      value = 10 * value + digit;
    }
    if (at === end && at > firstDigit) return isNegative ? -value : value;
    const text = this.text(bytes, i).trim();
    return text === '' ? Number.NaN : Number(text);
  }
}

function delimiterOf({ delimiter = ',' }: CsvOptions): number {
  const code = delimiter.charCodeAt(0);
  if (delimiter.length === 1 && code < 128 && code !== quote && code !== 10) return code;
  throw new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `csvDataset(): delimiter is one character, not ${describe(delimiter)}.`,
  );
}
