// Datasets of files that are not TFRecord: CSV, lines of text and of JSON, arrays of NumPy, folders of images, Parquet. What a
// sample becomes follows from the file; see docs/guide/data.md.

import { invalid } from '../operations/check-options.ts';
import { type DType, dtypes } from '../tensor/dtype.ts';
import { describe, type Tensor } from '../tensor/tensor.ts';
import { Dataset } from './dataset.ts';
import { type CsvOptions, csvDecoder } from './formats/csv/csv-format.ts';
import { checkImageOptions } from './formats/images/image-folder.ts';
import type { Json } from './plan/function-reference.ts';
import { checkedSettings, fileDataset, type SourceOptions } from './sources.ts';

/** The columns that are read, and their types. */
export type ColumnTypes = Readonly<Record<string, DType | 'string'>>;

/** What columns of these types are in an element. */
export type ElementOf<C extends ColumnTypes> = { [K in keyof C]: C[K] extends 'string' ? string : Tensor };

/** Options of csvDataset(). */
export interface CsvDatasetOptions<C extends ColumnTypes = ColumnTypes> extends SourceOptions {
  /** By name; all other columns are passed over. */
  columns: C;
  /**
   * True (default): the first line has the names of all columns. A list: these are the names, and the first line is data. False:
   * the file has just the columns of `columns`.
   */
  header?: boolean | readonly string[] | undefined;
  /** One character. Default: ','. */
  delimiter?: string | undefined;
  /** Quoted fields may contain line ends. Default: false. */
  quotedNewlines?: boolean | undefined;
}

/** The lines of CSV files. Numbers are tensors without dimensions. */
export function csvDataset<const C extends ColumnTypes>(
  paths: string | readonly string[],
  options: CsvDatasetOptions<C>,
): Dataset<ElementOf<C>> {
  const what = 'csvDataset()';
  checkColumns(options, what);
  const { header = true } = options;
  const isList = Array.isArray(header) && header.every((name) => typeof name === 'string');
  if (typeof header !== 'boolean' && !isList) {
    throw invalid(what, `header is true, false or a list of names, not ${describe(header)}`);
  }
  if (Array.isArray(header)) {
    const missing = Object.keys(options.columns).find((name) => !header.includes(name));
    if (missing !== undefined) throw invalid(what, `header has no column ${missing}`);
  }
  // Checks the delimiter.
  csvDecoder(options as CsvOptions, isList ? (header as string[]) : Object.keys(options.columns));
  const names = ['columns', 'header', 'delimiter', 'quotedNewlines'];
  return fileDataset('csvDataset', paths, options, names);
}

/** The lines of text files, without their ends. */
export function textLineDataset(
  paths: string | readonly string[],
  options: SourceOptions = {},
): Dataset<string> {
  return fileDataset('textLineDataset', paths, options, []);
}

/**
 * The objects of files that have one in each line. Lists of numbers become tensors of float32; numbers and strings stay what they
 * are, true and false become 1 and 0.
 */
export function jsonLinesDataset<E = Record<string, Tensor | number | string>>(
  paths: string | readonly string[],
  options: SourceOptions = {},
): Dataset<E> {
  return fileDataset('jsonLinesDataset', paths, options, []);
}

/**
 * The rows of arrays of NumPy: `.npy` files, or arrays of `.npz` files ('mnist.npz#x_train'). All have the same number of rows. Each
 * element has one row of each.
 */
export function npyDataset<K extends string>(
  arrays: Readonly<Record<K, string>>,
  options: SourceOptions = {},
): Dataset<Record<K, Tensor>> {
  const what = 'npyDataset()';
  const settings = gatheredSettings(options, what);
  const entries = typeof arrays === 'object' && arrays !== null ? Object.entries<unknown>(arrays) : [];
  if (entries.length === 0 || !entries.every(([, path]) => typeof path === 'string' && path !== '')) {
    throw invalid(what, `expected an object of paths, such as { x: 'x.npy' }, not ${describe(arrays)}`);
  }
  const paths = entries.map(([, path]) => path as string);
  const format = { names: entries.map(([name]) => name) };
  return Dataset.create({ node: 'npyDataset', paths, format, settings });
}

/** Options of imageFolderDataset(). Ranks are those of the job. */
export interface ImageFolderOptions extends Omit<SourceOptions, 'rank' | 'size'> {
  /** Height and width, or one number for both: images are resized, and cropped around their centre. */
  size: number | readonly [height: number, width: number];
  /** 1: grey, 3: colours (default), 4: with transparency. */
  channels?: 1 | 3 | 4 | undefined;
  /** Names of the folders in the order of their labels. Default: all folders, sorted. */
  labels?: readonly string[] | undefined;
}

/**
 * The images of a folder that has a folder for each class (`cat/1.jpg`). Elements have `image`, a tensor of uint8 [height, width,
 * channels], and `label`, the number of the class, int32. Needs the package sharp.
 */
export function imageFolderDataset(
  root: string,
  options: ImageFolderOptions,
): Dataset<{ image: Tensor; label: Tensor }> {
  const what = 'imageFolderDataset()';
  const { size, channels = 3, labels, ...rest } = Object(options) as ImageFolderOptions;
  const settings = gatheredSettings(rest, what);
  if (typeof root !== 'string' || root === '')
    throw invalid(what, `expected the path of a folder, not ${describe(root)}`);
  checkImageOptions({ size, channels });
  const areNames = Array.isArray(labels) && labels.every((name) => typeof name === 'string');
  if (labels !== undefined && !areNames)
    throw invalid(what, `labels is a list of names of folders, not ${describe(labels)}`);
  const format = { size, channels, labels } as Readonly<Record<string, Json | undefined>>;
  return Dataset.create({ node: 'imageFolderDataset', paths: [root], format, settings });
}

/** Options of parquetDataset(). */
export interface ParquetDatasetOptions<C extends ColumnTypes = ColumnTypes> extends SourceOptions {
  /** By name; all other columns are not read. A column of lists becomes tensors of one dimension. */
  columns: C;
}

/**
 * The rows of Parquet files, or of folders of them, as Spark writes them. Ranks divide the row groups, as far as there are enough of
 * them. Needs the package hyparquet.
 */
export function parquetDataset<const C extends ColumnTypes>(
  paths: string | readonly string[],
  options: ParquetDatasetOptions<C>,
): Dataset<ElementOf<C>> {
  checkColumns(options, 'parquetDataset()');
  return fileDataset('parquetDataset', paths, options, ['columns']);
}

/** A gathered source is one file. */
function gatheredSettings(options: SourceOptions, what: string) {
  if (options.shard === 'files') throw invalid(what, "shard is 'lanes', 'records' or 'none', not 'files'");
  return checkedSettings(options, what, []);
}

function checkColumns(options: { readonly columns: ColumnTypes }, what: string): void {
  const columns: unknown = Object(options).columns;
  const entries = typeof columns === 'object' && columns !== null ? Object.entries(columns) : [];
  if (entries.length === 0) {
    throw invalid(what, `columns is an object of names and types, not ${describe(columns)}`);
  }
  for (const [name, dtype] of entries) {
    const isKnown = dtype === 'string' || (typeof dtype === 'string' && Object.hasOwn(dtypes, dtype));
    if (isKnown && dtype !== 'float16' && dtype !== 'bfloat16') continue;
    throw invalid(what, `column ${name} cannot be ${describe(dtype)}`);
  }
}
