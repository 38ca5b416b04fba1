// Adasum: adds gradients as far as they are orthogonal, and averages them as far as they are parallel. Vectors are combined
// in pairs of neighbours, (0,1) (2,3) …, then pairs of pairs: a ∘ b = (1 - a·b/2|a|²) a + (1 - a·b/2|b|²) b, for each
// tensor by itself, also when several go together (Maleki et al., "Scaling distributed training with adaptive summation").
//
// A composite of operations that every transport has:
//   1. alltoall: each member gets its slice (slices.ts) of everybody's vectors, as the dtype's own bytes
//   2. for each level of the tree: dot products over the slice, added up by a small allreduce, then pairs are combined
//   3. allgather: everybody gets all slices
// Price for E bytes on n members: each sends and receives 2·E·(n-1)/n, as in an allreduce, and log2(n) allreduces of 24
// bytes for each pair and tensor. With hosts of several members 1 and 2 are done inside the hosts first. Short vectors
// are gathered as they are, and each member computes the whole tree: one step.
// All members get the same bits. Nothing is written into the outputs before the last step.

import assert from 'node:assert';
import { type DType, dtypes, type TypedArray } from '../../tensor/dtype.ts';
import { Sum } from '../../tensor/reduce-op.ts';
import { bytesOf } from '../../tensor/tensor.ts';
import type { AllgatherOperation, AlltoallOperation, TransportOperation } from '../../transport/transport.ts';
import {
  isPowerOfTwo,
  partOf,
  partyOf,
  placeOf,
  type Segment,
  type Slice,
  type Stage,
  segmentsOf,
  sliceAfter,
  stagesOf,
} from './slices.ts';
import { combineInto, fromBytes, putDots, scale, toDtype, type Vector } from './vectors.ts';

export interface AdasumTensor {
  readonly dtype: DType;
  readonly input: TypedArray;
  /** As long as `input`; may be the same array. */
  readonly output: TypedArray;
}

export interface AdasumCall {
  readonly tensors: readonly AdasumTensor[];
  readonly prescale: number;
  readonly postscale: number;
  /** Place of this member, and number of members: a power of two. */
  readonly index: number;
  readonly size: number;
  /** Number of each member's host, where it is known. */
  readonly hostOf?: readonly number[] | undefined;
  /** Calls of at most this many bytes, all members together, are gathered whole. */
  readonly gatherBytes?: number | undefined;
}

/** Two ranks of one host take as long either way at about 256 KiB; between hosts bytes cost more than steps. */
const usualGatherBytes = 64 * 1024;

/** Each yield is one agreed request; it goes on when the operations are done. */
export function* adasum(call: AdasumCall): Generator<readonly TransportOperation[], void, void> {
  const { tensors, size, gatherBytes = usualGatherBytes } = call;
  assert(isPowerOfTwo(size));
  const bytes = tensors.reduce((sum, { input }) => sum + input.byteLength, 0);
  if (bytes * size <= gatherBytes) yield* gathered(call);
  else yield* sliced(call);
}

function* gathered(call: AdasumCall): Generator<readonly TransportOperation[], void, void> {
  const { tensors, prescale, postscale, size } = call;
  const layout = new Layout(tensors);
  const all: AllgatherOperation = { kind: 'allgather', input: layout.pack(layout.wholes(), [layout.row]) };
  yield [all];
  const output = all.output as Uint8Array;
  const segments = segmentsOf(layout.row, layout.lengths);
  let vectors = Array.from({ length: size }, (_, member) => {
    const pieces = layout.unpack(output, member * layout.bytesIn(layout.row), segments);
    for (const piece of pieces) scale(piece.vector, prescale);
    return pieces;
  });
  const sums = new Float64Array(3);
  while (vectors.length > 1) {
    vectors = pairsOf(vectors).map(([a, b]) => {
      a.forEach(({ vector }, i) => {
        const other = (b[i] as Piece).vector;
        putDots(sums, 0, vector, other);
        combineInto(vector, other, sums, 0);
      });
      return a;
    });
  }
  for (const piece of vectors[0] as Piece[]) scale(piece.vector, postscale);
  layout.store(layout.narrowed(vectors[0] as Piece[]));
}

function* sliced(call: AdasumCall): Generator<readonly TransportOperation[], void, void> {
  const { tensors, prescale, postscale, index, size, hostOf } = call;
  const layout = new Layout(tensors);
  const stages = stagesOf(size, hostOf);
  let slice = layout.row;
  let own = layout.wholes();
  for (const [number, stage] of stages.entries()) {
    const mine = partOf(slice, placeOf(index, stage), stage.count);
    const swap = swapOf(layout, own, slice, stage, call);
    yield [swap];
    const segments = segmentsOf(mine, layout.lengths);
    const vectors = partyOf(index, stage).map((_, place) =>
      layout.unpack(swap.output as Uint8Array, place * layout.bytesIn(mine), segments),
    );
    if (number === 0) for (const { vector } of vectors.flat()) scale(vector, prescale);
    const pieces = yield* combined(vectors, stage, call);
    if (number === stages.length - 1) for (const { vector } of pieces) scale(vector, postscale);
    own = layout.narrowed(pieces);
    slice = mine;
  }
  const all: AllgatherOperation = { kind: 'allgather', input: layout.pack(own, [slice]) };
  yield [all];
  let at = 0;
  for (let member = 0; member < size; member++) {
    const theirs = sliceAfter(member, stages, layout.row.end);
    layout.storeBytes(all.output as Uint8Array, at, segmentsOf(theirs, layout.lengths));
    at += layout.bytesIn(theirs);
  }
}

/** Everybody of the party gets its part of the slice; the others nothing. */
function swapOf(
  layout: Layout,
  own: readonly RawPiece[],
  slice: Slice,
  stage: Stage,
  { index, size }: AdasumCall,
): AlltoallOperation {
  const parts = partyOf(index, stage).map((_, place) => partOf(slice, place, stage.count));
  const sendBytes = Array.from({ length: size }, () => 0);
  partyOf(index, stage).forEach((member, place) => {
    sendBytes[member] = layout.bytesIn(parts[place] as Slice);
  });
  return { kind: 'alltoall', input: layout.pack(own, parts), sendBytes };
}

/** The levels of the tree inside a party; the first vector becomes the result. */
function* combined(
  vectors: readonly Piece[][],
  { stride, count }: Stage,
  { index, size, tensors }: AdasumCall,
): Generator<readonly TransportOperation[], Piece[], void> {
  const party = Math.floor(index / (stride * count));
  let level = vectors;
  while (level.length > 1) {
    const pairs = pairsOf(level);
    // All pairs of all parties in one array: a tensor's sums come from those who hold slices of this pair.
    const pairsOfAll = (size / (stride * count)) * pairs.length;
    const sums = new Float64Array(pairsOfAll * tensors.length * 3);
    const placeOfSums = (pair: number, tensor: number) =>
      ((party * pairs.length + pair) * tensors.length + tensor) * 3;
    pairs.forEach(([a, b], pair) => {
      a.forEach(({ tensor, vector }, i) => {
        putDots(sums, placeOfSums(pair, tensor), vector, (b[i] as Piece).vector);
      });
    });
    yield [
      {
        kind: 'allreduce',
        dtype: 'float64',
        op: Sum,
        prescale: 1,
        postscale: 1,
        inputs: [sums],
        outputs: [sums],
      },
    ];
    level = pairs.map(([a, b], pair) => {
      a.forEach(({ tensor, vector }, i) => {
        combineInto(vector, (b[i] as Piece).vector, sums, placeOfSums(pair, tensor));
      });
      return a;
    });
  }
  return level[0] as Piece[];
}

function pairsOf<T>(list: readonly T[]): [T, T][] {
  return Array.from({ length: list.length / 2 }, (_, i) => [list[2 * i] as T, list[2 * i + 1] as T]);
}

/** A segment with numbers to reckon with. */
interface Piece extends Segment {
  readonly vector: Vector;
}

/** A segment in the tensor's dtype. */
interface RawPiece extends Segment {
  readonly data: TypedArray;
}

/** The tensors of a call as one row, and as bytes in messages. */
class Layout {
  readonly lengths: readonly number[];
  readonly row: Slice;
  readonly #tensors: readonly AdasumTensor[];

  constructor(tensors: readonly AdasumTensor[]) {
    this.#tensors = tensors;
    this.lengths = tensors.map(({ input }) => input.length);
    this.row = { start: 0, end: this.lengths.reduce((sum, length) => sum + length, 0) };
  }

  wholes(): RawPiece[] {
    return segmentsOf(this.row, this.lengths).map((segment) => {
      const { input } = this.#tensors[segment.tensor] as AdasumTensor;
      return { ...segment, data: input };
    });
  }

  bytesIn(slice: Slice): number {
    return segmentsOf(slice, this.lengths).reduce((sum, segment) => sum + this.#bytesOf(segment), 0);
  }

  /** The elements of the slices, one behind the other. One piece goes as it is: the slices follow each other. */
  pack(pieces: readonly RawPiece[], slices: readonly Slice[]): Uint8Array {
    const [only, ...others] = pieces;
    if (only !== undefined && others.length === 0) return bytesOf(only.data);
    const packed = new Uint8Array(slices.reduce((sum, slice) => sum + this.bytesIn(slice), 0));
    let at = 0;
    for (const segment of slices.flatMap((slice) => segmentsOf(slice, this.lengths))) {
      const piece = pieces.find(({ tensor }) => tensor === segment.tensor) as RawPiece;
      const each = this.#elementBytes(segment);
      const bytes = bytesOf(piece.data).subarray(
        (segment.from - piece.from) * each,
        (segment.to - piece.from) * each,
      );
      packed.set(bytes, at);
      at += bytes.length;
    }
    return packed;
  }

  unpack(bytes: Uint8Array, start: number, segments: readonly Segment[]): Piece[] {
    let at = start;
    return segments.map((segment) => {
      at += this.#bytesOf(segment);
      const { dtype } = this.#tensors[segment.tensor] as AdasumTensor;
      return { ...segment, vector: fromBytes(bytes.subarray(at - this.#bytesOf(segment), at), dtype) };
    });
  }

  narrowed(pieces: readonly Piece[]): RawPiece[] {
    return pieces.map(({ vector, ...segment }) => {
      const { dtype } = this.#tensors[segment.tensor] as AdasumTensor;
      return { ...segment, data: toDtype(vector, dtype) };
    });
  }

  store(pieces: readonly RawPiece[]): void {
    for (const piece of pieces) this.storeBytes(bytesOf(piece.data), 0, [piece]);
  }

  storeBytes(bytes: Uint8Array, start: number, segments: readonly Segment[]): void {
    let at = start;
    for (const segment of segments) {
      const { output } = this.#tensors[segment.tensor] as AdasumTensor;
      const length = this.#bytesOf(segment);
      bytesOf(output).set(bytes.subarray(at, at + length), segment.from * this.#elementBytes(segment));
      at += length;
    }
  }

  #bytesOf(segment: Segment): number {
    return (segment.to - segment.from) * this.#elementBytes(segment);
  }

  #elementBytes({ tensor }: Segment): number {
    return dtypes[(this.#tensors[tensor] as AdasumTensor).dtype].bytes;
  }
}
