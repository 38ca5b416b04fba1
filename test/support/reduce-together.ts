// For tests of compressors, including compressors of users: runs a reducing compressor for all members of a group, step by step,
// with plain arithmetic instead of a transport.

import assert from 'node:assert/strict';
import type { CompressibleTensor, ReducingCompressor } from '../../src/tensor/compression/compressor.ts';
import type { WireOperation } from '../../src/tensor/compression/wire.ts';
import type { TypedArray } from '../../src/tensor/dtype.ts';
import { reduceInto } from '../../src/tensor/reduce.ts';

/** `members[i]` are the tensors of member i; afterwards their `data` is the sum. Returns the bytes each member received. */
export function reduceTogether(
  compressor: ReducingCompressor,
  members: readonly (readonly CompressibleTensor[])[],
): number[] {
  const size = members.length;
  const received = members.map(() => 0);
  const wires = members.map((tensors, index) => compressor.reduce(tensors, { index, size }));
  for (;;) {
    const steps = wires.map((wire) => wire.next());
    if (steps.every(({ done }) => done === true)) return received;
    assert.ok(
      steps.every(({ done }) => done !== true),
      `${compressor.name}: some members have more steps than others`,
    );
    const lists = steps.map(({ value }) => value as readonly WireOperation[]);
    const [first] = lists as [readonly WireOperation[]];
    first.forEach(({ kind }, place) => {
      const operations = lists.map((list) => list[place] as WireOperation);
      assert.ok(
        operations.every((operation) => operation?.kind === kind),
        `${compressor.name}: members ask for different operations`,
      );
      run(operations, received);
    });
  }
}

/** A tensor of a member, with its own memory. */
export function compressible(
  values: ArrayLike<number>,
  shape: readonly number[] = [values.length],
  residual?: Float32Array | undefined,
  shared: Map<string, Float32Array> = new Map(),
): CompressibleTensor {
  const data = Float32Array.from(values);
  residual?.forEach((value, i) => {
    (data[i] as number) += value;
  });
  return { data, shape, residual, shared };
}

function run(operations: readonly WireOperation[], received: number[]): void {
  const [first] = operations as [WireOperation];
  switch (first.kind) {
    case 'allreduce': {
      const same = operations as (typeof first)[];
      first.inputs.forEach((input, i) => {
        const inputs = same.map((operation) => (operation.inputs[i] as TypedArray).slice());
        const sum = input.slice();
        reduceInto(sum, inputs, first.dtype, first.op, first.prescale, first.postscale);
        same.forEach((operation, member) => {
          (operation.outputs[i] as Float32Array).set(sum as Float32Array);
          // The bytes that a ring allreduce moves.
          received[member] =
            (received[member] as number) + (2 * sum.byteLength * (same.length - 1)) / same.length;
        });
      });
      return;
    }
    case 'allgather': {
      const same = operations as (typeof first)[];
      const counts = same.map(({ input }) => input.byteLength);
      const whole = unaligned(same.map(({ input }) => input));
      same.forEach((operation, member) => {
        operation.output = whole;
        operation.byteCounts = counts;
        received[member] = (received[member] as number) + whole.byteLength - (counts[member] as number);
      });
      return;
    }
    case 'alltoall': {
      const same = operations as (typeof first)[];
      same.forEach((operation, member) => {
        const parts = same.map(({ input, sendBytes }) => {
          const start = sendBytes.slice(0, member).reduce((sum, bytes) => sum + bytes, 0);
          return input.subarray(start, start + (sendBytes[member] as number));
        });
        operation.output = unaligned(parts);
        operation.receivedBytes = parts.map(({ byteLength }) => byteLength);
        const own = parts[member]?.byteLength ?? 0;
        received[member] = (received[member] as number) + operation.output.byteLength - own;
      });
      return;
    }
    default:
      first satisfies never;
  }
}

/** Begins at an odd byte, as data from a socket may. */
function unaligned(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = Buffer.concat(parts);
  const buffer = new Uint8Array(bytes.byteLength + 1);
  buffer.set(bytes, 1);
  return buffer.subarray(1);
}
