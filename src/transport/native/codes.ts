// Statuses and descriptions of operations as numbers, as TypeScript and the addon exchange them.

import { dtypes, type TypedArray } from '../../tensor/dtype.ts';
import type { Batch, Round, TransportOperation } from '../transport.ts';

/** As `Status` in native/src/group/operation.h; only submit() returns `queued`. */
export const status = {
  queued: -1,
  done: 0,
  mismatch: 1,
  stalled: 2,
  peerLost: 3,
  peerLeft: 4,
  failed: 5,
  timeout: 6,
  stopped: 7,
  systemError: 8,
  noMemory: 9,
  noThread: 10,
} as const;

export const kinds = {
  allreduce: 0,
  reducescatter: 1,
  allgather: 2,
  broadcast: 3,
  alltoall: 4,
  barrier: 5,
} as const;

/** The fields in the order of `Field` in native/src/node/read-operation.h. */
export function describe(round: Round, batch: Batch, passive: boolean): Float64Array {
  const operation = round.operation;
  const reduces = operation.kind === 'allreduce' || operation.kind === 'reducescatter';
  const fields = [
    kinds[operation.kind],
    reduces ? dtypes[operation.dtype].code : 0,
    reduces ? operation.op.code : 1,
    operation.kind === 'broadcast' ? operation.root : 0,
    round.fingerprintLow,
    round.fingerprintHigh,
    reduces ? operation.prescale : 1,
    reduces ? operation.postscale : 1,
    passive ? 1 : 0,
    batch.timeoutMs,
    batch.stallAfterMs,
    reduces && operation.wire !== undefined ? dtypes[operation.wire].code : 0,
  ];
  if (operation.kind === 'reducescatter') fields.push(...operation.counts);
  if (operation.kind === 'alltoall') fields.push(...operation.sendBytes);
  return Float64Array.from(fields);
}

export function inputsOf(operation: TransportOperation): readonly TypedArray[] {
  if (operation.kind === 'allreduce') return operation.inputs;
  return operation.kind === 'barrier' ? [] : [operation.input];
}

export function outputsOf(operation: TransportOperation): readonly TypedArray[] {
  switch (operation.kind) {
    case 'allreduce':
      return operation.outputs;
    case 'reducescatter':
    case 'broadcast':
      return [operation.output];
    case 'allgather':
    case 'alltoall':
      return [operation.input]; // a placeholder: the result is new memory
    case 'barrier':
      return [];
  }
}

/** Stores the result of an allgather or alltoall in its operation. */
export function takeResult(operation: TransportOperation, result: [ArrayBuffer, number[]]): void {
  if (operation.kind === 'allgather') {
    operation.output = new Uint8Array(result[0]);
    operation.byteCounts = result[1];
  } else if (operation.kind === 'alltoall') {
    operation.output = new Uint8Array(result[0]);
    operation.receivedBytes = result[1];
  }
}
