// ElasticFileSampler: deals records of files as ElasticSampler deals samples. Files are read best from front to back, so it shuffles
// whole files or blocks of records instead of single records. Which rank has had which file is computed and not remembered: nothing of it
// is lost with a rank. How many records the files have may be left to the sampler: the rank whose state the others take over counts
// them once, and the numbers are part of the state.

import { becomeResumable, type Resumable, resumableOf } from '../data/resumable.ts';
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
  /** How many records it has. Where this is missing, `count` finds out. */
  readonly records?: number | undefined;
}

export interface ElasticFileSamplerOptions extends Omit<ElasticSamplerOptions, 'length' | 'shuffle'> {
  /** The same list on all ranks. */
  readonly files: readonly ElasticFile[];
  /**
   * Counts the records of files that come without. elastic.run() calls it on one rank when training begins; the others, and ranks that join later,
   * get the numbers with the state.
   */
  readonly count?: ((path: string) => number | Promise<number>) | undefined;
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

const what = 'ElasticFileSampler';

/** A run of records that stay together. */
interface Block {
  readonly first: number;
  readonly length: number;
}

/** Deals records of files: `locate(batch)` says which records of which files a batch has. */
export class ElasticFileSampler extends ElasticSampler {
  readonly #layout: Layout;

  constructor(options: ElasticFileSamplerOptions, parts: Partial<SamplerParts> = {}) {
    const checked = checkedOptions(options);
    const layout = new Layout(checked);
    const order = (epoch: number) => layout.order(epoch);
    super({ ...checked.dealing, length: 0 }, { order, length: () => layout.length, ...parts });
    this.#layout = layout;
    const dealing = resumableOf(this) as Resumable<object>;
    if (!checked.isCounted)
      becomeResumable<{ records?: readonly number[] | undefined }>(this, {
        prepare: () => layout.count(),
        place: () => ({ ...dealing.place(), records: layout.records }),
        resumeAt: ({ records, ...place }) => {
          if (records !== undefined) layout.records = records;
          dealing.resumeAt(place);
        },
      });
  }

  /** The records of a batch, in the order of its indices. */
  locate(batch: ElasticBatch): RecordPlace[] {
    return Array.from(batch.indices, (index) => this.#layout.locate(index));
  }
}

/** Where which record is. */
class Layout {
  readonly #options: Checked;
  #records: readonly number[] | undefined;
  /** The index of the first record of each file. */
  #starts: readonly number[] = [];
  #length = 0;

  constructor(options: Checked) {
    this.#options = options;
    if (options.isCounted) this.records = options.files.map(({ records = 0 }) => records);
  }

  /** Of each file; undefined as long as nobody has counted them. */
  get records(): readonly number[] | undefined {
    return this.#records;
  }

  set records(records: readonly number[]) {
    this.#records = records;
    this.#starts = startsOf(records);
    this.#length = records.reduce((sum, count) => sum + count, 0);
  }

  get length(): number {
    this.#counted();
    return this.#length;
  }

  async count(): Promise<void> {
    if (this.#records !== undefined) return;
    const { files, count } = this.#options;
    const records: number[] = [];
    for (const { path, records: known } of files) {
      const counted: unknown = known ?? (await count?.(path));
      if (!isCount(counted))
        throw invalid(what, `count() has returned ${describe(counted)} for ${path}, not a number of records`);
      records.push(counted);
    }
    this.records = records;
  }

  order(epoch: number): Int32Array {
    const { shuffle, blockRecords, dealing } = this.#options;
    const [records, starts] = [this.#counted(), this.#starts];
    const blocks =
      shuffle === 'files' ? fileBlocks(records, starts) : cutBlocks(records, starts, blockRecords);
    const { seed = 0 } = dealing;
    const order = shuffle === false ? undefined : shuffledIndices(blocks.length, { seed, epoch });
    return ordered(this.length, blocks, order);
  }

  locate(index: number): RecordPlace {
    // The last file that begins at or before it; files without records begin where the next one does.
    let [low, high] = [0, this.#starts.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#starts[middle] as number) <= index) low = middle;
      else high = middle - 1;
    }
    return {
      path: (this.#options.files[low] as ElasticFile).path,
      record: index - (this.#starts[low] as number),
    };
  }

  #counted(): readonly number[] {
    if (this.#records !== undefined) return this.#records;
    throw invalid(
      what,
      'the records of its files have not been counted yet. Make the sampler a field of the state that you give to elastic.run(), and use it ' +
        'in the training function',
    );
  }
}

function startsOf(records: readonly number[]): number[] {
  let next = 0;
  return records.map((count) => {
    const start = next;
    next += count;
    return start;
  });
}

function fileBlocks(records: readonly number[], starts: readonly number[]): Block[] {
  return records.map((length, place) => ({ first: starts[place] as number, length }));
}

function cutBlocks(records: readonly number[], starts: readonly number[], size: number): Block[] {
  return records.flatMap((count, place) =>
    Array.from({ length: Math.ceil(count / size) }, (_, block) => ({
      first: (starts[place] as number) + block * size,
      length: Math.min(size, count - block * size),
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

interface Checked {
  readonly files: readonly ElasticFile[];
  readonly count: ElasticFileSamplerOptions['count'];
  /** Whether all files came with the number of their records. */
  readonly isCounted: boolean;
  readonly shuffle: 'blocks' | 'files' | false;
  readonly blockRecords: number;
  readonly dealing: Omit<ElasticSamplerOptions, 'length' | 'shuffle'>;
}

function checkedOptions(options: ElasticFileSamplerOptions): Checked {
  const names = [
    'files',
    'count',
    'shuffle',
    'blockRecords',
    'batchSize',
    'globalBatchSize',
    'seed',
    'uneven',
  ];
  checkNames(options, names, what);
  const { files, count, shuffle = 'blocks', blockRecords = 256, ...dealing } = options;
  if (!Array.isArray(files))
    throw invalid(what, `files is a list of { path, records }, not ${describe(files)}`);
  if (count !== undefined && typeof count !== 'function')
    throw invalid(what, `count is a function that counts the records of a file, not ${describe(count)}`);
  for (const [place, file] of (files as readonly Partial<ElasticFile>[]).entries()) {
    const { path, records } = Object(file) as Partial<ElasticFile>;
    if (typeof path !== 'string' || path === '')
      throw invalid(what, `files[${place}].path is the name of a file, not ${describe(path)}`);
    if (records === undefined && count !== undefined) continue;
    if (!isCount(records))
      throw invalid(
        what,
        `files[${place}].records is the number of records in ${path}, not ${describe(records)}. To leave it out, give a function \`count\``,
      );
  }
  if (!['blocks', 'files', false].includes(shuffle))
    throw invalid(what, `shuffle is 'blocks', 'files' or false, not ${describe(shuffle)}`);
  if (!Number.isSafeInteger(blockRecords) || blockRecords < 1)
    throw invalid(what, `blockRecords is a whole number from 1, not ${describe(blockRecords)}`);
  const all = files as readonly ElasticFile[];
  return {
    files: all,
    count,
    isCounted: all.every(({ records }) => records !== undefined),
    shuffle,
    blockRecords,
    dealing,
  };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
