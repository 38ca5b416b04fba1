// The shortest way for what programs call most: an allreduce of one tensor without name, scales or limits, on
// a transport that has a quick way. Everything else, and everything unusual, goes the common way; both ask for
// the same thing in the same words, so ranks may differ in which one they take.

import type { Channel } from '../engine/channel.ts';
import { unnamedKey } from '../engine/description.ts';
import { fromCaller, type HorovodError } from '../errors.ts';
import type { DType, TypedArray } from '../tensor/dtype.ts';
import { Average, Sum } from '../tensor/reduce-op.ts';
import type { TensorLike } from '../tensor/tensor.ts';
import type { QuickAllreduce } from '../transport/transport.ts';
import type { AllreduceOptions } from './options.ts';
import type { Plan } from './plan.ts';
import type { QuickCall, QuickRunner, SlowOperation } from './quick-call.ts';

/** Blocking. Undefined: take the common way. */
export function quickAllreduceSync<T extends TensorLike>(
  context: QuickRunner,
  x: T,
  options: AllreduceOptions,
): T | undefined {
  const call = context.quickCall;
  if (!call.prepare(context, x, options)) return undefined;
  const { data, output, quick, operation, fingerprint, channel } = call;
  channel.beginQuick(operation, quick);
  const status = quick.allreduceNow(
    data,
    output,
    call.dtypeAndOp,
    fingerprint.low,
    fingerprint.high,
    call.postscale,
  );
  if (status === 0) channel.endQuick(operation, quick);
  else {
    const { sequence } = operation;
    const key = unnamedKey(call.count);
    finishSlowly(context, channel, quick, status, { plan: planOf(call), options, key, sequence });
  }
  return output === undefined ? x : wrap(output, call.shape, call.dtype);
}

/** As a promise. Undefined: take the common way. */
export function quickAllreduce<T extends TensorLike>(
  context: QuickRunner,
  x: T,
  options: AllreduceOptions,
): Promise<T> | undefined {
  const call = context.quickCall;
  if (!call.prepare(context, x, options)) return undefined;
  const { data, output, quick, operation, fingerprint, channel } = call;
  channel.beginQuick(operation, quick);
  const status = quick.allreduceSoon(
    data,
    output,
    call.dtypeAndOp,
    fingerprint.low,
    fingerprint.high,
    call.postscale,
  );
  const result = output === undefined ? x : wrap<T>(output, call.shape, call.dtype);
  if (status !== 0) return promiseSlowly(context, status, options, result);
  channel.endQuick(operation, quick);
  return Promise.resolve(result);
}

/** The peers of a quick operation are late, want something else, or are gone. Apart, so that quick calls allocate no closures. */
function promiseSlowly<T>(
  context: QuickRunner,
  status: number | undefined,
  options: AllreduceOptions,
  result: T,
): Promise<T> {
  const { quickCall: call } = context;
  const { channel, quick } = call;
  return new Promise((resolve) => {
    const request = context.requestFor({
      plan: planOf(call),
      options,
      key: unnamedKey(call.count),
      sequence: call.operation.sequence,
      resolve: () => resolve(result),
      reject: (error) => resolve(rejectAtCaller(error)),
    });
    if (status === undefined) channel.adoptQuick(request, quick);
    else channel.settleQuick(request, quick, status);
  });
}

/**
 * A promise that resolves to this rejects with `error`, whose stack shows the line that awaits it. Only failures pay for it:
 * an async function around the operation would do the same, and makes small tensors 10 % slower.
 */
async function rejectAtCaller(error: HorovodError): Promise<never> {
  // V8 finds the awaiting line by way of the promises that wait for this one, and the first of them does so two jobs from now.
  await undefined;
  await undefined;
  throw fromCaller(error);
}

function wrap<T extends TensorLike>(data: TypedArray, shape: readonly number[] | undefined, dtype: DType): T {
  return (shape === undefined ? data : { data, shape, dtype }) as T;
}

function planOf({ data, output, shape, dtype, op, postscale }: QuickCall): Plan<void> {
  return {
    kind: 'allreduce',
    operands: [{ shape: shape ?? [data.length], dtype }],
    operations: [
      {
        kind: 'allreduce',
        dtype,
        op: op === Average ? Sum : op,
        inputs: [data],
        outputs: [output ?? data],
        prescale: 1,
        postscale,
      },
    ],
    op,
    result: () => undefined,
  };
}

/** The peers of a blocking quick operation are late, want something else, or are gone. Throws what it ends with. */
export function finishSlowly<R>(
  context: QuickRunner,
  channel: Channel,
  quick: QuickAllreduce,
  status: number,
  slow: Omit<SlowOperation<R>, 'resolve' | 'reject'>,
): void {
  let failure: HorovodError | undefined;
  const request = context.requestFor({
    ...slow,
    resolve() {},
    reject(error) {
      failure = error;
    },
  });
  channel.settleQuickSync(request, quick, status);
  if (failure !== undefined) throw fromCaller(failure);
}
