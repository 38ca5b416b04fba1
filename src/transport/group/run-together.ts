// The definition of every operation: runs a whole collective at once, given the operations of all members. The in-memory
// transport runs this; the conformance suite compares every other transport with it.

import assert from 'node:assert';
import type { TypedArray } from '../../tensor/dtype.ts';
import { type HalfDType, narrow, widen } from '../../tensor/half-float.ts';
import { reduceInto } from '../../tensor/reduce.ts';
import {
  type AllgatherOperation,
  type AllreduceOperation,
  type AlltoallOperation,
  type BroadcastOperation,
  type ReducescatterOperation,
  type TransportOperation,
  wireDType,
} from '../transport.ts';

/** Runs one operation for all members; operations[i] is the part of member i. All are of one kind. */
export function runTogether(operations: readonly TransportOperation[]): void {
  const [first] = operations;
  assert(first !== undefined && operations.every(({ kind }) => kind === first.kind));
  switch (first.kind) {
    case 'allreduce':
      allreduce(operations as readonly AllreduceOperation[]);
      return;
    case 'reducescatter':
      reducescatter(operations as readonly ReducescatterOperation[]);
      return;
    case 'allgather':
      allgather(operations as readonly AllgatherOperation[]);
      return;
    case 'broadcast':
      broadcast(operations as readonly BroadcastOperation[]);
      return;
    case 'alltoall':
      alltoall(operations as readonly AlltoallOperation[]);
      return;
    case 'barrier':
      return;
    default:
      first satisfies never;
  }
}

function allreduce(operations: readonly AllreduceOperation[]): void {
  const [first] = operations as readonly [AllreduceOperation];
  const { op, prescale, postscale, inputs } = first;
  for (let tensor = 0; tensor < inputs.length; tensor++) {
    const sources = operations.map(({ wire, inputs: own }) => toWire(own[tensor] as TypedArray, wire));
    const target =
      first.wire === undefined ? (first.outputs[tensor] as TypedArray) : (sources[0] as TypedArray);
    reduceInto(target, sources, wireDType(first), op, prescale, postscale);
    for (const { wire, outputs } of operations) fromWire(outputs[tensor] as TypedArray, target, wire);
  }
}

function reducescatter(operations: readonly ReducescatterOperation[]): void {
  const [first] = operations as readonly [ReducescatterOperation];
  const { op, prescale, postscale, counts } = first;
  const inputs = operations.map(({ wire, input }) => toWire(input, wire));
  // Compute all parts before the first is stored: an output may lie inside an input.
  let start = 0;
  const parts = counts.map((count) => {
    const sources = inputs.map((input) => input.subarray(start, start + count));
    const part = (sources[0] as TypedArray).slice();
    reduceInto(part, sources, wireDType(first), op, prescale, postscale);
    start += count;
    return part;
  });
  for (const [index, { wire, output }] of operations.entries()) {
    fromWire(output, parts[index] as TypedArray, wire);
  }
}

/** What a member sends: its array, or its array as halves. */
function toWire(input: TypedArray, wire: HalfDType | undefined): TypedArray {
  if (wire === undefined) return input;
  const halves = new Uint16Array(input.length);
  narrow(wire, input as Float32Array, halves);
  return halves;
}

function fromWire(output: TypedArray, reduced: TypedArray, wire: HalfDType | undefined): void {
  if (wire === undefined) copy(output, reduced);
  else widen(wire, reduced as Uint16Array, output as Float32Array);
}

function allgather(operations: readonly AllgatherOperation[]): void {
  const byteCounts = operations.map(({ input }) => input.length);
  const inputs = operations.map(({ input }) => input);
  for (const operation of operations) {
    operation.output = concatenate(inputs);
    operation.byteCounts = [...byteCounts];
  }
}

function broadcast(operations: readonly BroadcastOperation[]): void {
  const root = operations[(operations[0] as BroadcastOperation).root];
  assert(root !== undefined);
  for (const { output } of operations) copy(output, root.input);
}

function alltoall(operations: readonly AlltoallOperation[]): void {
  const pieces = operations.map(({ input, sendBytes }) => {
    let start = 0;
    return sendBytes.map((bytes) => {
      start += bytes;
      return input.subarray(start - bytes, start);
    });
  });
  for (const [index, operation] of operations.entries()) {
    const received = pieces.map((piecesOfSender) => piecesOfSender[index] as Uint8Array);
    operation.output = concatenate(received);
    operation.receivedBytes = received.map(({ length }) => length);
  }
}

function concatenate(pieces: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

function copy(target: TypedArray, source: TypedArray): void {
  if (target !== source) (target as Uint8Array).set(source as Uint8Array);
}
