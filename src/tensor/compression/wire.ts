// The steps by which a reducing compressor makes a sum over all ranks, as generators: `yield*` one of the functions below
// and go on with what it gives. Each is one collective operation, on whatever transport the job runs, in the promise
// form as in the blocking one. Price: a step costs a round trip; together() makes one step of several.

import type { DType, TypedArray } from '../dtype.ts';
import { type ReduceOp, Sum } from '../reduce-op.ts';
import { bytesOf, naturalDtype } from '../tensor.ts';

/** What transports can do (transport/transport.ts has the same in its own words), as far as compressors need it. */
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

/** Operations that are done, with their outputs filled in, when the generator goes on. */
export type Wire<R> = Generator<readonly WireOperation[], R, void>;

/** Every member's bytes, in order of the members. Their lengths may differ. */
export function* allgather(bytes: Uint8Array): Wire<Uint8Array[]> {
  const operation: WireOperation = { kind: 'allgather', input: bytes };
  yield [operation];
  return partsOf(operation.output, operation.byteCounts);
}

/** `parts[i]` goes to member i; gives what came from each member. */
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

/** Sums up (or reduces with another operator) over all members, in place. All arrays are of one type. */
export function* allreduce(arrays: readonly TypedArray[], op: ReduceOp = Sum): Wire<void> {
  const [first] = arrays;
  const dtype = naturalDtype(first);
  if (dtype === undefined) return;
  yield [{ kind: 'allreduce', dtype, op, inputs: arrays, outputs: arrays, prescale: 1, postscale: 1 }];
}

/** Both at the same time, step by step: one round trip instead of two. */
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

/** The bytes as float32; their number is a multiple of 4. */
export function float32In(bytes: Uint8Array): Float32Array {
  const { buffer, byteOffset, byteLength } = aligned(bytes);
  return new Float32Array(buffer, byteOffset, byteLength / 4);
}

/** The bytes as uint32; their number is a multiple of 4. */
export function uint32In(bytes: Uint8Array): Uint32Array {
  const { buffer, byteOffset, byteLength } = aligned(bytes);
  return new Uint32Array(buffer, byteOffset, byteLength / 4);
}

/** One after the other, in new memory. */
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

/** The bytes of all parts, if they lie in the same memory one after the other. */
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

/** What transports give may begin at any byte of a buffer. */
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

/** What compressors of one's own send and receive by: `yield* wire.allgather(bytes)`. */
export const wire: {
  readonly allgather: typeof allgather;
  readonly alltoall: typeof alltoall;
  readonly allreduce: typeof allreduce;
  readonly together: typeof together;
  readonly concatenate: typeof concatenate;
  readonly float32In: typeof float32In;
  readonly uint32In: typeof uint32In;
} = { allgather, alltoall, allreduce, together, concatenate, float32In, uint32In };
