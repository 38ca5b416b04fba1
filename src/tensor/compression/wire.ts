// The steps with which a reducing compressor computes a sum over all ranks, as generators: `yield*` one of the functions
// below and continue with its result. Each is one collective operation on the job's transport, in the promise form as in
// the blocking form. Price: a step costs a round trip; together() combines several into one step.

import type { DType, TypedArray } from '../dtype.ts';
import { type ReduceOp, Sum } from '../reduce-op.ts';
import { bytesOf, naturalDtype } from '../tensor.ts';

/** The operations of transports (transport/transport.ts) that compressors need. */
export type WireOperation =
  | {
      readonly kind: 'allreduce';
      readonly dtype: DType;
      readonly op: ReduceOp;
      readonly inputs: readonly TypedArray[];
      readonly outputs: readonly TypedArray[];
      readonly prescale: number;
      readonly postscale: number;
    }
  | { readonly kind: 'allgather'; readonly input: Uint8Array; output?: Uint8Array; byteCounts?: number[] }
  | {
      readonly kind: 'alltoall';
      readonly input: Uint8Array;
      readonly sendBytes: readonly number[];
      output?: Uint8Array;
      receivedBytes?: number[];
    };

/** When the generator continues, the operations it yielded are done and their outputs filled in. */
export type Wire<R> = Generator<readonly WireOperation[], R, void>;

/** Every member's bytes, in index order. Their lengths may differ. */
export function* allgather(bytes: Uint8Array): Wire<Uint8Array[]> {
  const operation: WireOperation = { kind: 'allgather', input: bytes };
  yield [operation];
  return partsOf(operation.output, operation.byteCounts);
}

/** Sends `parts[i]` to member i; returns what came from each member. */
export function* alltoall(parts: readonly Uint8Array[]): Wire<Uint8Array[]> {
  const input = adjacent(parts) ?? concatenate(parts);
  const operation: WireOperation = {
    kind: 'alltoall',
    input,
    sendBytes: parts.map(({ byteLength }) => byteLength),
  };
  yield [operation];
  return partsOf(operation.output, operation.receivedBytes);
}

/** Sums (or reduces with another operator) over all members, in place. All arrays have the same type. */
export function* allreduce(arrays: readonly TypedArray[], op: ReduceOp = Sum): Wire<void> {
  const [first] = arrays;
  const dtype = naturalDtype(first);
  if (dtype === undefined) return;
  yield [{ kind: 'allreduce', dtype, op, inputs: arrays, outputs: arrays, prescale: 1, postscale: 1 }];
}

/** Runs both at the same time, step by step: one round trip instead of two. */
export function* together<A, B>(first: Wire<A>, second: Wire<B>): Wire<readonly [A, B]> {
  let a = first.next();
  let b = second.next();
  while (a.done !== true || b.done !== true) {
    yield [...(a.done === true ? [] : a.value), ...(b.done === true ? [] : b.value)];
    if (a.done !== true) a = first.next();
    if (b.done !== true) b = second.next();
  }
  return [a.value, b.value];
}

/** The bytes as float32; their number must be a multiple of 4. */
export function float32In(bytes: Uint8Array): Float32Array {
  const { buffer, byteOffset, byteLength } = aligned(bytes);
  return new Float32Array(buffer, byteOffset, byteLength / 4);
}

/** The bytes as uint32; their number must be a multiple of 4. */
export function uint32In(bytes: Uint8Array): Uint32Array {
  const { buffer, byteOffset, byteLength } = aligned(bytes);
  return new Uint32Array(buffer, byteOffset, byteLength / 4);
}

/** All parts, one after another. A single part is not copied. */
export function concatenate(parts: readonly TypedArray[]): Uint8Array {
  const [only] = parts;
  if (parts.length === 1 && only !== undefined) return bytesOf(only);
  const whole = new Uint8Array(parts.reduce((sum, { byteLength }) => sum + byteLength, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(bytesOf(part), at);
    at += part.byteLength;
  }
  return whole;
}

/** A view of all parts, if they lie one after another in the same memory. */
function adjacent(parts: readonly Uint8Array[]): Uint8Array | undefined {
  const [first] = parts;
  if (first === undefined) return undefined;
  const { buffer, byteOffset } = first;
  let end = byteOffset;
  for (const part of parts) {
    if (part.buffer !== buffer || part.byteOffset !== end) return undefined;
    end += part.byteLength;
  }
  return new Uint8Array(buffer, byteOffset, end - byteOffset);
}

/** The results of transports may begin at any byte of a buffer. */
function aligned(bytes: Uint8Array): Uint8Array {
  return bytes.byteOffset % 4 === 0 ? bytes : Uint8Array.from(bytes);
}

function partsOf(whole: Uint8Array = new Uint8Array(0), counts: readonly number[] = []): Uint8Array[] {
  let at = 0;
  return counts.map((count) => {
    at += count;
    return whole.subarray(at - count, at);
  });
}

/** For compressors written by users: `yield* wire.allgather(bytes)`. */
export const wire: {
  readonly allgather: typeof allgather;
  readonly alltoall: typeof alltoall;
  readonly allreduce: typeof allreduce;
  readonly together: typeof together;
  readonly concatenate: typeof concatenate;
  readonly float32In: typeof float32In;
  readonly uint32In: typeof uint32In;
} = { allgather, alltoall, allreduce, together, concatenate, float32In, uint32In };
