// The shortest way for what programs call most: an allreduce of one tensor without name, scales or limits, on
// a plane that has a quick way. Everything else, and everything unusual, goes the common way; both ask for
// the same thing in the same words, so ranks may differ in which one they take.

import type { Channel } from '../engine/channel.ts';
import { Fingerprint } from '../engine/fingerprint.ts';
import { quickAllreduceFingerprint, type Request, unnamedKey } from '../engine/request.ts';
import { HorovodError } from '../errors.ts';
import type { QuickAllreduce } from '../plane/plane.ts';
import { type DType, dtypes, type TypedArray } from '../tensor/dtype.ts';
import { Average, Max, Min, Product, type ReduceOp, Sum } from '../tensor/reduce-op.ts';
import { elementsIn, emptyLike, naturalDtype, type Tensor, type TensorLike } from '../tensor/tensor.ts';
import type { HorovodContext } from './context.ts';
import type { AllreduceOptions } from './options.ts';
import type { Plan } from './plans.ts';

/** Blocking. Undefined: take the common way. */
export function quickAllreduceSync<T extends TensorLike>(
  context: HorovodContext,
  x: T,
  options: AllreduceOptions,
): T | undefined {
  const call = prepareCall(context, x, options);
  if (call === undefined) return undefined;
  const { data, output, quick, record, op } = call;
  const status = quick.allreduceNow(
    data,
    output,
    call.dtypeAndOp,
    call.low,
    call.high,
    scaleOf(op, call.channel),
  );
  record.finishedAtMs = quick.lastFinishedAtMs();
  if (status === 0) record.state = 'done';
  else settleQuick(context, call.channel, quick, status, planOf(call), options, unnamedKey(call.count));
  return resultOf(call, x);
}

/** As a promise. Undefined: take the common way. */
export function quickAllreduce<T extends TensorLike>(
  context: HorovodContext,
  x: T,
  options: AllreduceOptions,
): Promise<T> | undefined {
  const call = prepareCall(context, x, options);
  if (call === undefined) return undefined;
  const { data, output, quick, record, op, channel } = call;
  const status = quick.allreduceSoon(
    data,
    output,
    call.dtypeAndOp,
    call.low,
    call.high,
    scaleOf(op, channel),
  );
  if (status === 0) {
    record.finishedAtMs = quick.lastFinishedAtMs();
    record.state = 'done';
    return Promise.resolve(resultOf(call, x));
  }
  return new Promise((resolve, reject) => {
    const ends = { resolve: () => resolve(resultOf(call, x)), reject };
    const request = context.requestFor(channel, planOf(call), options, unnamedKey(call.count), ends);
    if (status === undefined) {
      channel.adopt(request, (job, complete) => quick.adopt(job, complete));
      context.watchStalls();
    } else {
      settle(context, channel, quick, status, request, (late) => channel.resolve(late));
    }
  });
}

interface QuickCall {
  readonly data: TypedArray;
  /** Undefined: in place. */
  readonly output: TypedArray | undefined;
  readonly shape: readonly number[] | undefined;
  readonly dtype: DType;
  readonly op: ReduceOp;
  readonly channel: Channel;
  readonly quick: QuickAllreduce;
  readonly record: ReturnType<HorovodContext['recorder']['begin']>;
  readonly count: number;
  readonly dtypeAndOp: number;
  readonly low: number;
  readonly high: number;
}

function prepareCall(
  context: HorovodContext,
  x: TensorLike,
  options: AllreduceOptions,
): QuickCall | undefined {
  if (
    options.name !== undefined ||
    options.prescaleFactor !== undefined ||
    options.postscaleFactor !== undefined ||
    options.compression !== undefined ||
    options.signal !== undefined ||
    options.timeoutMs !== undefined
  ) {
    return undefined;
  }
  const op = options.op ?? Average;
  if (op !== Sum && op !== Average && op !== Min && op !== Max && op !== Product) return undefined;
  let data: TypedArray;
  let dtype: DType | undefined;
  let shape: readonly number[] | undefined;
  if (ArrayBuffer.isView(x)) {
    data = x as TypedArray;
    dtype = naturalDtype(data);
  } else {
    // Only what surely passes the checks of the common way.
    data = (x as Tensor)?.data;
    dtype = naturalDtype(data);
    shape = (x as Tensor)?.shape;
    if (dtype !== (x as Tensor)?.dtype || !Array.isArray(shape) || elementsIn(shape) !== data.length)
      return undefined;
  }
  if (dtype === undefined || data.length === 0) return undefined;
  const channel = context.quickChannel(options.processSet);
  const quick = channel?.group.quick;
  if (channel === undefined || quick === undefined) return undefined;

  const count = channel.nextUnnamed();
  const record = context.recorder.begin();
  record.kind = 'allreduce';
  record.unnamed = count;
  record.processSet = options.processSet?.id ?? 0;
  record.dtype = dtype;
  record.op = op.name;
  record.bytes = data.byteLength;
  record.submittedAtMs = 0;
  const { code } = dtypes[dtype];
  const { low, high } = quickAllreduceFingerprint(fingerprint, count, op.code, code, shape, data.length);
  const output = options.inPlace === true ? undefined : emptyLike(data, data.length);
  const dtypeAndOp = code | ((op === Average ? Sum : op).code << 8);
  return { data, output, shape, dtype, op, channel, quick, record, count, dtypeAndOp, low, high };
}

// Reset before every use, read within the same call.
const fingerprint = new Fingerprint();

function scaleOf(op: ReduceOp, channel: Channel): number {
  return op === Average ? 1 / channel.group.size : 1;
}

function resultOf<T extends TensorLike>({ output, shape, dtype }: QuickCall, x: T): T {
  if (output === undefined) return x;
  return (shape === undefined ? output : { data: output, shape, dtype }) as T;
}

function planOf({ data, output, shape, dtype, op, channel }: QuickCall): Plan<void> {
  const operator = op === Average ? Sum : op;
  const scales = { prescale: 1, postscale: scaleOf(op, channel) };
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

/** Brings a blocking quick operation to its end the common way; throws what it ends with. */
export function settleQuick(
  context: HorovodContext,
  channel: Channel,
  quick: QuickAllreduce,
  status: number,
  plan: Plan<unknown>,
  options: AllreduceOptions,
  key: string,
): void {
  let failure: HorovodError | undefined;
  const request = context.requestFor(channel, plan, options, key, {
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
    if (quick.settleSync(status, channel.quickJob(request)) === 'done') request.resolve();
    else onMismatch(request);
  } catch (error) {
    if (!HorovodError.is(error)) throw error;
    context.fail(error);
    if (!request.isSettled) request.reject(error);
  }
}
