// Several typed arrays, seen as one run of bytes without copying them, for fused collectives.

import type { TypedArray } from './dtype.ts';

export class ByteList {
  readonly byteLength: number;
  readonly #pieces: readonly Uint8Array[];
  /** Where each piece begins in the run. */
  readonly #starts: readonly number[];

  constructor(arrays: readonly TypedArray[]) {
    const pieces: Uint8Array[] = [];
    const starts: number[] = [];
    let end = 0;
    for (const { buffer, byteOffset, byteLength } of arrays) {
      if (byteLength === 0) continue;
      pieces.push(new Uint8Array(buffer, byteOffset, byteLength));
      starts.push(end);
      end += byteLength;
    }
    this.byteLength = end;
    this.#pieces = pieces;
    this.#starts = starts;
  }

  /** target[at …] = bytes [start, start + length) of the run. */
  read(start: number, length: number, target: Uint8Array, at: number): void {
    this.#each(start, length, (piece, from, to, done) => {
      target.set(from === 0 && to === piece.length ? piece : piece.subarray(from, to), at + done);
    });
  }

  /** Bytes [start, start + length) of the run = source[at …]. */
  write(start: number, length: number, source: Uint8Array, at: number): void {
    this.#each(start, length, (piece, from, to, done) => {
      piece.set(source.subarray(at + done, at + done + to - from), from);
    });
  }

  /** A view of the bytes, if they are contiguous in memory. */
  view(start: number, length: number): Uint8Array | undefined {
    const index = this.#find(start);
    const piece = this.#pieces[index];
    const from = start - (this.#starts[index] ?? 0);
    return piece !== undefined && from + length <= piece.length
      ? piece.subarray(from, from + length)
      : undefined;
  }

  #each(
    start: number,
    length: number,
    visit: (piece: Uint8Array, from: number, to: number, done: number) => void,
  ): void {
    let index = length === 0 ? 0 : this.#find(start);
    for (let done = 0; done < length; index++) {
      const piece = this.#pieces[index] as Uint8Array;
      const from = start + done - (this.#starts[index] as number);
      const to = Math.min(piece.length, from + length - done);
      visit(piece, from, to, done);
      done += to - from;
    }
  }

  /** The last piece that begins at or before `start`. */
  #find(start: number): number {
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#starts[middle] as number) <= start) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
