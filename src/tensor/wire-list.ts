// Several float32 arrays seen as the run of bytes that travels for them: halves, converted as they are read and written.
// The twin of ByteList for operations with a `wire`.

import assert from 'node:assert';
import { ByteList } from './byte-list.ts';
import type { TypedArray } from './dtype.ts';
import type { HalfDType } from './half-float.ts';
import type { ReduceKernels } from './wasm-reduce.ts';

/** What collectives need of the arrays they move; offsets and lengths are bytes of what travels. */
export interface TravelList {
  readonly byteLength: number;
  /** The area of the staging memory at `at` becomes bytes [start, start + length) of the run. */
  read(start: number, length: number, staging: Uint8Array, at: number): void;
  /** Bytes [start, start + length) of the run become those of the area. */
  write(start: number, length: number, staging: Uint8Array, at: number): void;
  /** The bytes themselves where they lie in one piece. */
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
  /** Where the elements lie between arrays and kernels. */
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

  /** `visit(bytes done before, elements)`, as many at a time as the kernels take. */
  #each(length: number, staging: Uint8Array, visit: (done: number, elements: number) => void): void {
    assert(staging === this.#kernels.staging);
    const most = this.#kernels.wide.length;
    for (let done = 0; done < length; done += 2 * most) visit(done, Math.min(most, (length - done) / 2));
  }
}
