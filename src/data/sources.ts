// The sources of datasets: TFRecord files, arrays in memory, ranges of numbers; and what all sources have in common. Files of other
// formats are in file-sources.ts.

import { checkNames, invalid } from '../operations/check-options.ts';
import type { TypedArray } from '../tensor/dtype.ts';
import { describe, operandOf, type TensorLike } from '../tensor/tensor.ts';
import { Dataset } from './dataset.ts';
import { exported, type Json } from './plan/function-reference.ts';
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
  /** How many places are read at a time. Default: 4; 16 for files of other machines. */
  interleave?: number | undefined;
  /**
   * TFRecord: 'auto' uses and writes files that say where records are; 'build' writes new ones. 'none' (TFRecord and lines) looks at no
   * file before it is read: ranks divide the files, a shuffle changes the order of files alone, and resuming skips records.
   */
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

/** What a factory of moduleDataset() gets beside its arguments. */
export interface PartContext {
  /** From 0 to `parts` − 1. */
  readonly part: number;
  readonly parts: number;
  readonly epoch: number;
  /** That of the shuffle; 0 without. */
  readonly seed: number;
}

/** Options of moduleDataset(). */
export interface ModuleDatasetOptions extends Pick<SourceOptions, 'shuffle' | 'shard' | 'rank' | 'size'> {
  /** How many parts the data has; at least as many as there are ranks. Default: 1. */
  parts?: number | undefined;
}

/**
 * Elements that a function of yours makes: export `exportName` of `module` is called as `(args, { part, parts, epoch, seed })` for
 * each part, in the reader thread, and returns an iterable, an async iterable or a dataset with `shard: 'none'`. Ranks divide the
 * parts; a shuffle changes their order; resuming skips elements.
 */
export function moduleDataset<T = unknown>(
  module: URL | string,
  exportName: string = 'default',
  args: Json = null,
  options: ModuleDatasetOptions = {},
): Dataset<T> {
  const what = 'moduleDataset()';
  checkNames(options, ['shuffle', 'shard', 'rank', 'size', 'parts'], what);
  const { parts = 1, ...rest } = options;
  if (!Number.isSafeInteger(parts) || parts < 1 || parts > 2 ** 20) {
    throw invalid(what, `parts is a whole number from 1 to ${2 ** 20}, not ${describe(parts)}`);
  }
  if (rest.shard === 'records') throw invalid(what, "shard is 'lanes', 'files' or 'none', not 'records'");
  const settings = checkedSettings(rest, what, []);
  const { module: url, name } = exported(module, exportName, args);
  return Dataset.create({
    node: 'moduleDataset',
    paths: [],
    format: { module: url, name, args, parts },
    settings,
  });
}

/** A dataset of files; `names`: options that the format takes. */
export function fileDataset<T>(
  kind: SourceKind,
  paths: string | readonly string[],
  options: SourceOptions,
  names: readonly string[],
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
  return Dataset.create({ node: kind, paths: list as string[], format, settings });
}

/** `names`: options that are not of every source. */
export function checkedSettings(
  options: SourceOptions,
  what: string,
  names: readonly string[],
): SourceSettings {
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
  if (index === 'none') {
    const isLines = ['tfRecordDataset()', 'textLineDataset()', 'jsonLinesDataset()'].includes(what);
    check('index', index, isLines, "'auto' or 'build' here; 'none' is for TFRecord, text and JSON lines");
    check('shard', shard, shard !== 'records', "'lanes', 'files' or 'none' with index: 'none'");
  }
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
