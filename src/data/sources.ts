// The sources of datasets: files of all formats, arrays in memory, ranges of numbers.

import { locationOf } from '../files/location.ts';
import { checkNames, invalid } from '../operations/check-options.ts';
import type { DType, TypedArray } from '../tensor/dtype.ts';
import { describe, operandOf, type Tensor, type TensorLike } from '../tensor/tensor.ts';
import { Dataset } from './dataset.ts';
import type { ElementValue } from './formats/format.ts';
import type { Json } from './plan/function-reference.ts';
import type { ArrayColumn, ShardPolicy, SourceKind, SourceSettings } from './plan/nodes.ts';

/** Options of every source. */
export interface SourceOptions {
  /**
   * Another order in each epoch; default: the order of the files. `pool`: how many records are mixed with each other (10 000),
   * or 'all' for a true permutation, which reads records one by one.
   */
  shuffle?: false | { seed?: number | undefined; pool?: number | 'all' | undefined } | undefined;
  /**
   * How ranks divide the data. 'lanes' (default): each sample once in an epoch, by all ranks together. 'files': each rank has
   * files of its own. 'records': rank r takes records r, r + n, … 'none': each rank sees everything.
   */
  shard?: ShardPolicy | undefined;
  /** Default: that of the job. */
  rank?: number | undefined;
  size?: number | undefined;
  /** What happens where samples cannot be divided evenly, at the end of an epoch. Default: 'pad'. */
  uneven?: 'pad' | 'drop' | 'keep' | 'exact' | undefined;
  /** How many places are read at a time. */
  interleave?: number | undefined;
  /** Whether to use and write files that say where records are ('auto'), none of them, or new ones. */
  index?: 'auto' | 'none' | 'build' | undefined;
  /** Number of places of the data set that a batch mixes; default: up to 64. */
  lanes?: number | undefined;
}

const sourceOptionNames = [
  'shuffle',
  'shard',
  'rank',
  'size',
  'uneven',
  'interleave',
  'index',
  'lanes',
] as const;

export const defaultPool = 10_000;

/** Options of tfRecordDataset(). */
export interface TfRecordDatasetOptions extends SourceOptions {
  /** Default: 'auto', by the first bytes of each file. */
  compression?: 'auto' | 'none' | 'gzip' | 'zlib' | undefined;
  /** Verify the checksums of records (true). */
  verifyCrc?: boolean | undefined;
  /** 'skip': leave damaged records out, and count them. Default: 'fail'. */
  onCorrupt?: 'fail' | 'skip' | undefined;
}

/** The records of TFRecord files, as bytes. Paths may be patterns (`train-*.tfrecord`) and URLs. */
export function tfRecordDataset(
  paths: string | readonly string[],
  options: TfRecordDatasetOptions = {},
): Dataset<Uint8Array> {
  return fileDataset('tfRecordDataset', paths, options, ['compression', 'verifyCrc', 'onCorrupt']);
}

/** The lines of text files, without their ends. Files may be gzipped. */
export function textLineDataset(
  paths: string | readonly string[],
  options: SourceOptions = {},
): Dataset<string> {
  return fileDataset('textLineDataset', paths, options, []);
}

/** Files with a JSON object in each line. Lists of numbers become float32 tensors. */
export function jsonLinesDataset<E = Record<string, ElementValue>>(
  paths: string | readonly string[],
  options: SourceOptions = {},
): Dataset<E> {
  return fileDataset('jsonLinesDataset', paths, options, []);
}

/** Options of csvDataset(). */
export interface CsvDatasetOptions extends SourceOptions {
  /** The columns that are read, and their types; all others are passed over. */
  columns: Readonly<Record<string, DType | 'string'>>;
  /** True (default): the first line of each file has the names. A list: these are the names, and the first line is data. */
  header?: boolean | readonly string[] | undefined;
  /** Default: ','. */
  delimiter?: string | undefined;
  /** Quoted fields may contain line ends (false). */
  quotedNewlines?: boolean | undefined;
}

/** The rows of CSV files. */
export function csvDataset<E = Record<string, ElementValue>>(
  paths: string | readonly string[],
  options: CsvDatasetOptions,
): Dataset<E> {
  checkColumns(options, 'csvDataset()');
  return fileDataset('csvDataset', paths, options, ['columns', 'header', 'delimiter', 'quotedNewlines']);
}

/** Options of parquetDataset(). */
export interface ParquetDatasetOptions extends SourceOptions {
  /** The columns that are read, and their types. */
  columns: Readonly<Record<string, DType | 'string'>>;
}

/** The rows of Parquet files. Needs the package hyparquet. */
export function parquetDataset<E = Record<string, ElementValue>>(
  paths: string | readonly string[],
  options: ParquetDatasetOptions,
): Dataset<E> {
  checkColumns(options, 'parquetDataset()');
  return fileDataset('parquetDataset', paths, options, ['columns']);
}

/** Rows of arrays of NumPy: paths of .npy files, or members of .npz files ('mnist.npz#x_train'), by column. */
export function npyDataset<K extends string>(
  arrays: Readonly<Record<K, string>>,
  options: SourceOptions = {},
): Dataset<Record<K, Tensor>> {
  const what = 'npyDataset()';
  const settings = checkedSettings(options, what, []);
  const paths = Object.values<unknown>(Object(arrays));
  if (paths.length === 0 || !paths.every((path) => typeof path === 'string' && path !== '')) {
    throw invalid(
      what,
      `expected an object of paths, such as { x: 'x.npy', y: 'y.npy' }, not ${describe(arrays)}`,
    );
  }
  const absolute = Object.fromEntries(
    Object.entries<string>(arrays).map(([name, path]) => [name, locationOf(path)]),
  );
  return Dataset.create({
    node: 'npyDataset',
    paths: paths as string[],
    format: { arrays: absolute },
    settings,
  });
}

/** Options of imageFolderDataset(). */
export interface ImageFolderOptions extends Omit<SourceOptions, 'rank' | 'size'> {
  /** Height and width, or one number for both. Images are scaled and cropped to it. */
  size: number | readonly [height: number, width: number];
  /** 1: grey, 3: colours (default), 4: with transparency. */
  channels?: 1 | 3 | 4 | undefined;
  /** The folders, in the order of their labels. Default: all, sorted by name. */
  labels?: readonly string[] | undefined;
}

/** Images in folders, one for each class: `{ image, label }`. Needs the package sharp. */
export function imageFolderDataset(
  root: string,
  options: ImageFolderOptions,
): Dataset<{ image: Tensor; label: Tensor }> {
  const { size, channels = 3, labels, ...rest } = Object(options) as ImageFolderOptions;
  return fileDataset('imageFolderDataset', root, rest, [], { size, channels, labels });
}

/** The rows of tensors or typed arrays in memory: each element is a record of one row of each. */
export function arrayDataset<K extends string>(
  arrays: Readonly<Record<K, TensorLike>>,
  options: SourceOptions = {},
): Dataset<Record<K, unknown>> {
  const what = 'arrayDataset()';
  const settings = checkedSettings(options, what, []);
  if (typeof arrays !== 'object' || arrays === null || Object.keys(arrays).length === 0) {
    throw invalid(what, `expected an object of tensors or typed arrays, not ${describe(arrays)}`);
  }
  let rows: number | undefined;
  const columns: ArrayColumn[] = Object.entries<TensorLike>(arrays).map(([name, array]) => {
    const { data, shape, dtype } = operandOf(array, `${what}: ${name}`);
    const [count, ...rest] = shape;
    if (count === undefined || (rows !== undefined && rows !== count)) {
      throw invalid(
        what,
        `all arrays have one row for each sample; ${name} has shape [${shape.join(', ')}], the first one ${rows ?? 'no'} rows`,
      );
    }
    rows = count;
    return { name, dtype, shape: rest, data: data as TypedArray };
  });
  const format = {
    rows: rows ?? 0,
    columns: columns.map(({ name, dtype, shape }) => ({ name, dtype, shape })),
  };
  return Dataset.create(
    { node: 'arrayDataset', paths: [], format: format as unknown as Record<string, Json>, settings },
    columns,
  );
}

/** The whole numbers from `start` up to, but without, `stop`. */
export function rangeDataset(start: number, stop: number, options: SourceOptions = {}): Dataset<number> {
  const what = 'rangeDataset()';
  const settings = checkedSettings(options, what, []);
  for (const [name, value] of Object.entries({ start, stop })) {
    if (!Number.isSafeInteger(value))
      throw invalid(what, `${name} is a whole number, not ${describe(value)}`);
  }
  const format = { start, rows: Math.max(0, stop - start) };
  return Dataset.create({ node: 'rangeDataset', paths: [], format, settings });
}

/** A dataset of files; `names`: options that the format takes. */
function fileDataset<T>(
  kind: SourceKind,
  paths: string | readonly string[],
  options: SourceOptions,
  names: readonly string[],
  more: Readonly<Record<string, Json | undefined>> = {},
): Dataset<T> {
  const what = `${kind}()`;
  const settings = checkedSettings(options, what, names);
  const list: readonly unknown[] = typeof paths === 'string' ? [paths] : Array.isArray(paths) ? paths : [];
  if (list.length === 0 || !list.every((path) => typeof path === 'string' && path !== '')) {
    throw invalid(what, `expected a path, a pattern or a list of them, not ${describe(paths)}`);
  }
  const given = options as Readonly<Record<string, Json | undefined>>;
  const format = Object.fromEntries(
    names.filter((name) => given[name] !== undefined).map((name) => [name, given[name]]),
  );
  return Dataset.create({ node: kind, paths: list as string[], format: { ...format, ...more }, settings });
}

function checkColumns(options: { columns?: unknown }, what: string): void {
  const { columns } = Object(options) as { columns?: unknown };
  if (typeof columns === 'object' && columns !== null && Object.keys(columns).length > 0) return;
  throw invalid(what, `columns are names with dtypes, such as { age: 'float32' }, not ${describe(columns)}`);
}

function checkedSettings(options: SourceOptions, what: string, names: readonly string[]): SourceSettings {
  checkNames(options, [...sourceOptionNames, ...names], what);
  const { shuffle = false, shard = 'lanes', uneven = 'pad', index = 'auto' } = options;
  const check = (name: string, value: unknown, isRight: boolean, expected: string) => {
    if (!isRight) throw invalid(what, `${name} is ${expected}, not ${describe(value)}`);
  };
  const choice = (name: string, value: unknown, choices: readonly unknown[]) =>
    check(name, value, choices.includes(value), choices.map((each) => `'${String(each)}'`).join(' or '));
  choice('shard', shard, ['lanes', 'files', 'records', 'none']);
  choice('uneven', uneven, ['pad', 'drop', 'keep', 'exact']);
  choice('index', index, ['auto', 'none', 'build']);
  const whole = (name: 'rank' | 'size' | 'interleave' | 'lanes', min: number) => {
    const value = options[name];
    if (value === undefined) return null;
    check(name, value, Number.isSafeInteger(value) && value >= min, `a whole number from ${min}`);
    return value;
  };
  const [rank, size] = [whole('rank', 0), whole('size', 1)];
  if ((rank === null) !== (size === null)) throw invalid(what, 'give rank and size, or neither');
  if (rank !== null && size !== null) check('rank', rank, rank < size, `below size (${size})`);
  return {
    shuffle: shuffle === false ? null : checkedShuffle(shuffle.seed, shuffle.pool, what),
    shard,
    rank,
    size,
    uneven,
    interleave: whole('interleave', 1),
    index,
    lanes: whole('lanes', 1),
  };
}

function checkedShuffle(
  seed: number = 0,
  pool: number | 'all' = defaultPool,
  what: string,
): { seed: number; pool: number | 'all' } {
  if (!Number.isSafeInteger(seed))
    throw invalid(what, `shuffle.seed is a whole number, not ${describe(seed)}`);
  if (pool !== 'all' && !(Number.isSafeInteger(pool) && pool >= 1)) {
    throw invalid(what, `shuffle.pool is a whole number from 1 or 'all', not ${describe(pool)}`);
  }
  return { seed, pool };
}
