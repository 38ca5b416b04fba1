// The shortest way for what programs call most: a blocking allreduce of one bare typed array without name,
// scales or limits, on a plane that has a quick way. Everything else, and everything unusual, goes the common
// way; both ask for the same thing in the same words, so ranks may differ in which one they take.

import type { Channel } from '../engine/channel.ts';
import { Fingerprint } from '../engine/fingerprint.ts';
import { quickAllreduceFingerprint, unnamedKey } from '../engine/request.ts';
import { HorovodError } from '../errors.ts';
import type { QuickAllreduce } from '../plane/plane.ts';
import { type DType, dtypes, type TypedArray } from '../tensor/dtype.ts';
import { Average, Max, Min, Product, type ReduceOp, Sum } from '../tensor/reduce-op.ts';
import { emptyLike, naturalDtype, type TensorLike } from '../tensor/tensor.ts';
import type { HorovodContext } from './context.ts';
import type { AllreduceOptions } from './options.ts';
import type { Plan } from './plans.ts';

/** Undefined: take the common way. */
export function quickAllreduce(
  context: HorovodContext,
  x: TensorLike,
  options: AllreduceOptions,
): TypedArray | undefined {
  if (
    !ArrayBuffer.isView(x) ||
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
  const dtype = naturalDtype(x);
  if (dtype === undefined || x.length === 0) return undefined;
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
  record.bytes = x.byteLength;
  record.submittedAtMs = 0;
  const { code } = dtypes[dtype];
  const { low, high } = quickAllreduceFingerprint(fingerprint, count, op.code, code, x.length);
  const output = options.inPlace === true ? undefined : emptyLike(x, x.length);
  const postscale = op === Average ? 1 / channel.group.size : 1;
  const operator = op === Average ? Sum : op;
  const status = quick.allreduceNow(x, output, code | (operator.code << 8), low, high, postscale);
  record.finishedAtMs = quick.lastFinishedAtMs();
  if (status === 0) {
    record.state = 'done';
  } else {
    const request = { x, output: output ?? x, dtype, op, count };
    finishSlowly(context, channel, quick, status, request, options);
  }
  return output ?? x;
}

// Reset before every use, read within the same call.
const fingerprint = new Fingerprint();

interface Unfinished {
  readonly x: TypedArray;
  readonly output: TypedArray;
  readonly dtype: DType;
  readonly op: ReduceOp;
  readonly count: number;
}

/** The peers are late, or want something else, or are gone. */
function finishSlowly(
  context: HorovodContext,
  channel: Channel,
  quick: QuickAllreduce,
  status: number,
  { x, output, dtype, op, count }: Unfinished,
  options: AllreduceOptions,
): void {
  const scales = { prescale: 1, postscale: op === Average ? 1 / channel.group.size : 1 };
  const operator = op === Average ? Sum : op;
  const plan: Plan<void> = {
    kind: 'allreduce',
    operands: [{ shape: [x.length], dtype }],
    operations: [{ kind: 'allreduce', dtype, op: operator, inputs: [x], outputs: [output], ...scales }],
    op,
    result: () => undefined,
  };
  settleQuick(context, channel, quick, status, plan, options, unnamedKey(count));
}

/** Brings a quick operation to its end the common way; throws what it ends with. */
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
  const request = context.requestFor(channel, plan, options, key, (error) => {
    failure = error;
  });
  try {
    if (quick.settleSync(status, channel.quickJob(request)) === 'done') request.resolve();
    else channel.resolveSync(request);
  } catch (error) {
    if (HorovodError.is(error)) {
      context.fail(error);
      request.reject(error);
    }
    throw error;
  }
  if (failure !== undefined) throw failure;
}
