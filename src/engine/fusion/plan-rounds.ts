// What goes together: turns the requests of a batch into the rounds of one job. Allreduces of one dtype (and
// that of the wire), operator and scale become one operation over a list of buffers (transports gather and scatter natively; nothing is
// packed here), up to the fusion threshold. Everything else is a round of its own. The plan depends only on
// what all ranks agree on, so all ranks make the same one; the results do not depend on it.

import { dtypes, type TypedArray } from '../../tensor/dtype.ts';
import {
  type AllreduceOperation,
  type Round,
  type TransportOperation,
  wireDType,
} from '../../transport/transport.ts';
import { Fingerprint } from '../fingerprint.ts';
import type { Request } from '../request.ts';

/** `requests` are in the agreed order. */
export function planRounds(requests: readonly Request[], fusionThresholdBytes: number): Round[] {
  const [only] = requests;
  if (only === undefined) return [];
  const operations = fuse(
    requests.flatMap((request) => request.operations),
    fusionThresholdBytes,
  );
  if (operations.length === 0) operations.push({ kind: 'barrier' });
  const batch = requests.length === 1 ? only : fingerprintOfBatch(requests);
  return operations.map((operation, i) => {
    if (i === 0) return { fingerprintLow: batch.low >>> 0, fingerprintHigh: batch.high >>> 0, operation };
    const { low, high } = new Fingerprint().number(batch.low).number(batch.high).number(i);
    return { fingerprintLow: low >>> 0, fingerprintHigh: high >>> 0, operation };
  });
}

function fingerprintOfBatch(requests: readonly Request[]): Fingerprint {
  const fingerprint = new Fingerprint().number(requests.length);
  for (const { low, high } of requests) fingerprint.number(low).number(high);
  return fingerprint;
}

function fuse(operations: readonly TransportOperation[], thresholdBytes: number): TransportOperation[] {
  if (operations.length === 1) return [...operations];
  const planned: TransportOperation[] = [];
  const open = new Map<string, Fused>();
  for (const operation of operations) {
    if (operation.kind !== 'allreduce') {
      planned.push(operation);
      continue;
    }
    const { dtype, wire, op, prescale, postscale } = operation;
    const kind = `${dtype} ${wire} ${op.code} ${prescale} ${postscale}`;
    const elementBytes = dtypes[wireDType(operation)].bytes;
    const bytes = operation.inputs.reduce((sum, { length }) => sum + length * elementBytes, 0);
    let fused = open.get(kind);
    if (fused === undefined || fused.bytes + bytes > thresholdBytes) {
      fused = { bytes: 0, inputs: [], outputs: [] };
      open.set(kind, fused);
      const { inputs, outputs } = fused;
      planned.push({ ...operation, inputs, outputs } satisfies AllreduceOperation);
    }
    fused.bytes += bytes;
    fused.inputs.push(...operation.inputs);
    fused.outputs.push(...operation.outputs);
  }
  return planned;
}

interface Fused {
  bytes: number;
  readonly inputs: TypedArray[];
  readonly outputs: TypedArray[];
}
