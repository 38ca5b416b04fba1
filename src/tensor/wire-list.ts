// Several float32 arrays, seen as the bytes that travel for them: halves, converted as they are read and written.
// The counterpart of ByteList for operations with a `wire`.

import assert from 'node:assert';
import { ByteList } from './byte-list.ts';
import type { TypedArray } from './dtype.ts';
import type { HalfDType } from './half-float.ts';
import type { ReduceKernels } from './wasm-reduce.ts';

/** How collectives access the arrays they move; offsets and lengths count the bytes that travel. */
export interface TravelList {
  readonly byteLength: number;
  /** Copies bytes [start, start + length) to the area of the staging memory at `at`. */
  read(start: number, length: number, staging: Uint8Array, at: number): void;
  /** Copies the area of the staging memory at `at` to bytes [start, start + length). */
  write(start: number, length: number, staging: Uint8Array, at: number): void;
  /** A view of the bytes, if they are contiguous in memory. */
  view(start: number, length: number): Uint8Array | undefined;
}

export function travelList(
  arrays: readonly TypedArray[],
  wire: HalfDType | undefined,
  kernels: ReduceKernels,
): TravelList {
  return wire === undefined ? new ByteList(arrays) : new WireList(arrays, wire, kernels);
}

class WireList implements TravelList {
  readonly byteLength: number;
  readonly #arrays: ByteList;
  readonly #wire: HalfDType;
  readonly #kernels: ReduceKernels;
  /** Memory of the kernels for elements on their way from or to the arrays. */
  readonly #between: Uint8Array;

  constructor(arrays: readonly TypedArray[], wire: HalfDType, kernels: ReduceKernels) {
    this.#arrays = new ByteList(arrays);
    this.byteLength = this.#arrays.byteLength / 2;
    this.#wire = wire;
    this.#kernels = kernels;
    const { buffer, byteOffset, byteLength } = kernels.wide;
    this.#between = new Uint8Array(buffer, byteOffset, byteLength);
  }

  read(start: number, length: number, staging: Uint8Array, at: number): void {
    this.#each(length, staging, (done, elements) => {
      this.#arrays.read(2 * (start + done), 4 * elements, this.#between, 0);
      this.#kernels.narrow(at + done, elements, this.#wire);
    });
  }

  write(start: number, length: number, staging: Uint8Array, at: number): void {
    this.#each(length, staging, (done, elements) => {
      this.#kernels.widen(at + done, elements, this.#wire);
      this.#arrays.write(2 * (start + done), 4 * elements, this.#between, 0);
    });
  }

  view(): undefined {
    return undefined;
  }

  /** Calls `visit(bytes done before, elements)` with as many elements at a time as the kernels accept. */
  #each(length: number, staging: Uint8Array, visit: (done: number, elements: number) => void): void {
    assert(staging === this.#kernels.staging);
    const maxElements = this.#kernels.wide.length;
    for (let done = 0; done < length; done += 2 * maxElements) {
      visit(done, Math.min(maxElements, (length - done) / 2));
    }
  }
}
