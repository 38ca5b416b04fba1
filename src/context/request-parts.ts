// Parts of requests that do not need a context: a joined rank's zeros, flight records, the clock.

import type { MutableRecord } from '../diagnostics/flight-recorder.ts';
import { type Description, fingerprintOf, nameOf, type Request } from '../engine/request.ts';
import { type DType, dtypes } from '../tensor/dtype.ts';
import { Average, Max, Min, Product, type ReduceOp, Sum } from '../tensor/reduce-op.ts';
import { type Plan, zeroOperations } from './plans.ts';

/** Milliseconds of the host's monotonic clock, the same for all its processes. */
export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** The request of a rank that has joined, for what the others ask: the same with zeros. */
export function zeroRequest(description: Description, size: number, timeoutMs: number): Request {
  const op = [Average, Sum, Min, Max, Product].find(({ name }) => name === description.op) as
    | ReduceOp
    | undefined;
  const codes = description.dtypes.map((dtype) => dtypes[dtype].code);
  const { low, high } = fingerprintOf(description, op?.code ?? -1, codes);
  return {
    description,
    low,
    high,
    operations: zeroOperations(description, size),
    timeoutMs,
    submittedAtMs: nowMs(),
    isSettled: false,
    resolve() {},
    reject() {},
  };
}

/** Everything but how it ends. */
export function fillRecord<R>(
  record: MutableRecord,
  plan: Plan<R>,
  description: Description,
  processSet: number,
): void {
  const [dtype] = description.dtypes as DType[];
  record.kind = plan.kind;
  record.name = nameOf(description);
  record.unnamed = 0;
  record.processSet = processSet;
  record.dtype = dtype;
  record.op = description.op;
  record.bytes = description.shapes.reduce(
    (sum, shape, i) =>
      sum +
      shape.reduce((product, length) => product * length, 1) * dtypes[description.dtypes[i] as DType].bytes,
    0,
  );
  record.submittedAtMs = nowMs();
  record.finishedAtMs = 0;
}
