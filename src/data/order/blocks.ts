// The sequence of an epoch: the records of all files, block after block. A *block* is a run of neighbouring records of one file,
// long enough to be read at full speed. With shuffle, blocks are permuted. Records are numbered through all files. Pure.

import { permutation } from './permutation.ts';

/** A file as the order sees it. */
export interface BlockFile {
  readonly records: number;
  /** Records of each block; their sum is `records`. One block if left out. */
  readonly blocks?: readonly number[] | undefined;
}

export interface Block {
  /** Its first record, counted through all files. */
  readonly first: number;
  readonly length: number;
}

/** Blocks have at least so many bytes, but for the last one of a file. */
export const minBlockBytes: number = 8 * 2 ** 20;

/** Records per block of a file whose records begin at these offsets; the last offset is the end of the last record. */
export function blocksOfOffsets(offsets: ArrayLike<number>, minBytes: number = minBlockBytes): number[] {
  const blocks: number[] = [];
  const records = offsets.length - 1;
  let first = 0;
  for (let record = 1; record <= records; record += 1) {
    const bytes = (offsets[record] as number) - (offsets[first] as number);
    if (bytes < minBytes && record < records) continue;
    blocks.push(record - first);
    first = record;
  }
  return blocks;
}

export function blocksOf(files: readonly BlockFile[]): Block[] {
  const list: Block[] = [];
  let first = 0;
  for (const { records, blocks = records > 0 ? [records] : [] } of files) {
    for (const length of blocks) {
      list.push({ first, length });
      first += length;
    }
  }
  return list;
}

/** Which record stands at each place. */
export class BlockSequence {
  readonly length: number;
  readonly #blocks: readonly Block[];
  /** The first place of each block, and the number of places. */
  readonly #starts: Float64Array;

  /** With a key, blocks are permuted by it. */
  constructor(blocks: readonly Block[], key?: number) {
    const order = key === undefined ? undefined : permutation(blocks.length, key);
    this.#blocks = order === undefined ? blocks : blocks.map((_, place) => blocks[order.at(place)] as Block);
    this.#starts = new Float64Array(blocks.length + 1);
    for (const [place, { length }] of this.#blocks.entries()) {
      this.#starts[place + 1] = (this.#starts[place] as number) + length;
    }
    this.length = this.#starts[blocks.length] as number;
  }

  at(place: number): number {
    const block = this.#blockAt(place);
    return (this.#blocks[block] as Block).first + place - (this.#starts[block] as number);
  }

  /** The runs of neighbouring records at places [start, start + count). */
  runs(start: number, count: number): Block[] {
    const runs: Block[] = [];
    for (let place = start; place < start + count; ) {
      const block = this.#blockAt(place);
      const first = this.at(place);
      const length = Math.min(this.#starts[block + 1] as number, start + count) - place;
      const last = runs.at(-1);
      if (last !== undefined && last.first + last.length === first) {
        runs[runs.length - 1] = { first: last.first, length: last.length + length };
      } else {
        runs.push({ first, length });
      }
      place += length;
    }
    return runs;
  }

  /** The block that has this place: the last one that begins at or before it. */
  #blockAt(place: number): number {
    let [low, high] = [0, this.#blocks.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#starts[middle] as number) <= place) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
