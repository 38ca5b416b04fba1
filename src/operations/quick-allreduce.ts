// The shortest way for what programs call most: an allreduce of one tensor without name, scales or limits, on
// a transport that has a quick way. Everything else, and everything unusual, goes the common way; both ask for
// the same thing in the same words, so ranks may differ in which one they take.

import type { HorovodContext } from '../context/context.ts';
import { nowMs } from '../context/request-parts.ts';
import type { Channel } from '../engine/channel.ts';
import { type Request, unnamedKey } from '../engine/request.ts';
import { HorovodError } from '../errors.ts';
import type { MutableRecord } from '../observe/flight-recorder/flight-recorder.ts';
import type { DType, TypedArray } from '../tensor/dtype.ts';
import { Average, Sum } from '../tensor/reduce-op.ts';
import type { TensorLike } from '../tensor/tensor.ts';
import type { QuickAllreduce } from '../transport/transport.ts';
import type { AllreduceOptions } from './options.ts';
import type { Plan } from './plan.ts';
import type { QuickCall } from './quick-call.ts';

/** Blocking. Undefined: take the common way. */
export function quickAllreduceSync<T extends TensorLike>(
  context: HorovodContext,
  x: T,
  options: AllreduceOptions,
): T | undefined {
  const call = context.quickCall;
  if (!call.prepare(context, x, options)) return undefined;
  const { data, output, quick, record, fingerprint } = call;
  const { meter } = context.stragglers;
  const startedAtMs = meter.wants(data.byteLength) ? nowMs() : 0;
  const status = quick.allreduceNow(
    data,
    output,
    call.dtypeAndOp,
    fingerprint.low,
    fingerprint.high,
    call.postscale,
  );
  if (startedAtMs !== 0) meter.add(nowMs() - startedAtMs);
  if (status === 0) endQuick(context, quick, record);
  else {
    const key = unnamedKey(call.count);
    settleQuick(context, call.channel, quick, status, planOf(call), options, key, record);
  }
  return output === undefined ? x : wrap(output, call.shape, call.dtype);
}

/** As a promise. Undefined: take the common way. */
export function quickAllreduce<T extends TensorLike>(
  context: HorovodContext,
  x: T,
  options: AllreduceOptions,
): Promise<T> | undefined {
  const call = context.quickCall;
  if (!call.prepare(context, x, options)) return undefined;
  const { data, output, quick, record, fingerprint, channel, shape, dtype } = call;
  const status = quick.allreduceSoon(
    data,
    output,
    call.dtypeAndOp,
    fingerprint.low,
    fingerprint.high,
    call.postscale,
  );
  const result = output === undefined ? x : wrap<T>(output, shape, dtype);
  if (status === 0) {
    endQuick(context, quick, record);
    return Promise.resolve(result);
  }
  return new Promise((resolve, reject) => {
    const ends = { resolve: () => resolve(result), reject };
    const request = context.requestFor(channel, planOf(call), options, unnamedKey(call.count), record, ends);
    if (status === undefined) {
      channel.adopt(request, (batch, complete) => quick.adopt(batch, complete));
      context.watchStalls();
    } else {
      settle(context, channel, quick, status, request, (late) => channel.resolve(late));
    }
  });
}

function wrap<T extends TensorLike>(data: TypedArray, shape: readonly number[] | undefined, dtype: DType): T {
  return (shape === undefined ? data : { data, shape, dtype }) as T;
}

function planOf({ data, output, shape, dtype, op, postscale }: QuickCall): Plan<void> {
  const operator = op === Average ? Sum : op;
  const scales = { prescale: 1, postscale };
  return {
    kind: 'allreduce',
    operands: [{ shape: shape ?? [data.length], dtype }],
    operations: [
      { kind: 'allreduce', dtype, op: operator, inputs: [data], outputs: [output ?? data], ...scales },
    ],
    op,
    result: () => undefined,
  };
}

/** Done at once. The time is to within some milliseconds, and costs nothing. */
export function endQuick(context: HorovodContext, quick: QuickAllreduce, record: MutableRecord): void {
  const finishedAtMs = quick.lastFinishedAtMs();
  record.finishedAtMs = finishedAtMs;
  record.state = 'done';
  context.timeline.recorder?.quickOperation(record, quick);
  if (finishedAtMs >= context.status.dueAtMs) context.status.write();
}

/** Brings a blocking quick operation to its end the common way; throws what it ends with. */
export function settleQuick(
  context: HorovodContext,
  channel: Channel,
  quick: QuickAllreduce,
  status: number,
  plan: Plan<unknown>,
  options: AllreduceOptions,
  key: string,
  record: MutableRecord,
): void {
  let failure: HorovodError | undefined;
  const request = context.requestFor(channel, plan, options, key, record, {
    resolve() {},
    reject(error) {
      failure = error;
    },
  });
  settle(context, channel, quick, status, request, (late) => channel.resolveSync(late));
  if (failure !== undefined) throw failure;
}

/** The peers are late, or want something else, or are gone. */
function settle(
  context: HorovodContext,
  channel: Channel,
  quick: QuickAllreduce,
  status: number,
  request: Request,
  onMismatch: (request: Request) => void,
): void {
  try {
    if (quick.settleSync(status, channel.quickBatch(request)) === 'done') request.resolve();
    else onMismatch(request);
  } catch (error) {
    if (!HorovodError.is(error)) throw error;
    context.fail(error);
    if (!request.isSettled) request.reject(error);
  }
}
