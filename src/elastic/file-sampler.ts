// ElasticFileSampler: deals records of files as ElasticSampler deals samples. Files are read best from front to back, so it shuffles
// whole files or blocks of records instead of single records. Which rank has had which file is computed and not remembered: nothing of it
// is lost with a rank.

import { shuffledIndices } from '../data/shuffled-indices.ts';
import { checkNames, invalid } from '../operations/check-options.ts';
import { describe } from '../tensor/tensor.ts';
import {
  type ElasticBatch,
  ElasticSampler,
  type ElasticSamplerOptions,
  type SamplerParts,
} from './sampler.ts';

export interface ElasticFile {
  readonly path: string;
  /** How many records it has. */
  readonly records: number;
}

export interface ElasticFileSamplerOptions extends Omit<ElasticSamplerOptions, 'length' | 'shuffle'> {
  /** The same list on all ranks. */
  readonly files: readonly ElasticFile[];
  /** 'blocks' (default): blocks of records in another order in each epoch. 'files': whole files. false: as listed. */
  readonly shuffle?: 'blocks' | 'files' | false | undefined;
  /** Records in a block. Default: 256. */
  readonly blockRecords?: number | undefined;
}

/** Where a record is. */
export interface RecordPlace {
  readonly path: string;
  /** Its number in the file, from 0. */
  readonly record: number;
}

/** A run of records that stay together. */
interface Block {
  readonly first: number;
  readonly length: number;
}

/** Deals records of files: `locate(batch)` says which records of which files a batch has. */
export class ElasticFileSampler extends ElasticSampler {
  readonly #files: readonly ElasticFile[];
  /** The index of the first record of each file. */
  readonly #starts: readonly number[];

  constructor(options: ElasticFileSamplerOptions, parts: Partial<SamplerParts> = {}) {
    const { files, shuffle, blockRecords, dealing } = checkedOptions(options);
    const starts = startsOf(files);
    const length = files.reduce((sum, { records }) => sum + records, 0);
    const blocks = shuffle === 'files' ? fileBlocks(files, starts) : cutBlocks(files, starts, blockRecords);
    const { seed = 0 } = dealing;
    const order = (epoch: number) =>
      ordered(
        length,
        blocks,
        shuffle === false ? undefined : shuffledIndices(blocks.length, { seed, epoch }),
      );
    super({ ...dealing, length }, { order, ...parts });
    this.#files = files;
    this.#starts = starts;
  }

  /** The records of a batch, in the order of its indices. */
  locate(batch: ElasticBatch): RecordPlace[] {
    return Array.from(batch.indices, (index) => {
      // The last file that begins at or before it; files without records begin where the next one does.
      let [low, high] = [0, this.#starts.length - 1];
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if ((this.#starts[middle] as number) <= index) low = middle;
        else high = middle - 1;
      }
      return { path: (this.#files[low] as ElasticFile).path, record: index - (this.#starts[low] as number) };
    });
  }
}

function startsOf(files: readonly ElasticFile[]): number[] {
  let next = 0;
  return files.map(({ records }) => {
    const start = next;
    next += records;
    return start;
  });
}

function fileBlocks(files: readonly ElasticFile[], starts: readonly number[]): Block[] {
  return files.map(({ records }, place) => ({ first: starts[place] as number, length: records }));
}

function cutBlocks(files: readonly ElasticFile[], starts: readonly number[], size: number): Block[] {
  return files.flatMap(({ records }, place) =>
    Array.from({ length: Math.ceil(records / size) }, (_, block) => ({
      first: (starts[place] as number) + block * size,
      length: Math.min(size, records - block * size),
    })),
  );
}

function ordered(length: number, blocks: readonly Block[], order: Int32Array | undefined): Int32Array {
  const places = new Int32Array(length);
  let next = 0;
  for (let place = 0; place < blocks.length; place += 1) {
    const { first, length: count } = blocks[order?.[place] ?? place] as Block;
    for (let record = 0; record < count; record += 1) places[next++] = first + record;
  }
  return places;
}

function checkedOptions(options: ElasticFileSamplerOptions): {
  files: readonly ElasticFile[];
  shuffle: 'blocks' | 'files' | false;
  blockRecords: number;
  dealing: Omit<ElasticSamplerOptions, 'length' | 'shuffle'>;
} {
  const what = 'ElasticFileSampler';
  const names = ['files', 'shuffle', 'blockRecords', 'batchSize', 'globalBatchSize', 'seed', 'uneven'];
  checkNames(options, names, what);
  const { files, shuffle = 'blocks', blockRecords = 256, ...dealing } = options;
  if (!Array.isArray(files))
    throw invalid(what, `files is a list of { path, records }, not ${describe(files)}`);
  for (const [place, file] of (files as readonly Partial<ElasticFile>[]).entries()) {
    const { path, records } = Object(file) as Partial<ElasticFile>;
    if (typeof path !== 'string' || path === '')
      throw invalid(what, `files[${place}].path is the name of a file, not ${describe(path)}`);
    if (!Number.isSafeInteger(records) || (records as number) < 0)
      throw invalid(
        what,
        `files[${place}].records is the number of records in ${path}, not ${describe(records)}`,
      );
  }
  if (!['blocks', 'files', false].includes(shuffle))
    throw invalid(what, `shuffle is 'blocks', 'files' or false, not ${describe(shuffle)}`);
  if (!Number.isSafeInteger(blockRecords) || blockRecords < 1)
    throw invalid(what, `blockRecords is a whole number from 1, not ${describe(blockRecords)}`);
  return { files: files as readonly ElasticFile[], shuffle, blockRecords, dealing };
}
