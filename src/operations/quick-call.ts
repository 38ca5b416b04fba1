// The checks and the bookkeeping of a quick allreduce (quick-allreduce.ts), without allocating anything.

import type { Channel } from '../engine/channel.ts';
import { finishQuickFingerprint, quickFingerprintStart } from '../engine/description.ts';
import { Fingerprint } from '../engine/fingerprint.ts';
import { ObservedOperation } from '../engine/observer.ts';
import type { Request } from '../engine/request.ts';
import { type DType, dtypes, type TypedArray } from '../tensor/dtype.ts';
import { Average, Max, Min, Product, type ReduceOp, Sum } from '../tensor/reduce-op.ts';
import {
  elementsIn,
  emptyLike,
  isShape,
  naturalDtype,
  type Tensor,
  type TensorLike,
} from '../tensor/tensor.ts';
import type { QuickAllreduce } from '../transport/transport.ts';
import type { AllreduceOptions, CollectiveOptions } from './options.ts';
import type { Plan } from './plan.ts';
import type { ProcessSet } from './process-set.ts';
import type { OperationRunner } from './runner.ts';

/** What the quick paths need of the rank they run on, besides what all collectives need. */
export interface QuickRunner extends OperationRunner {
  readonly quickCall: QuickCall;
  readonly limits: { readonly operationTimeoutMs: number };
  /** The channel of a process set, if it is idle and well. */
  quickChannel(set: ProcessSet | undefined): Channel | undefined;
  /** The request of a quick operation that did not end at once. */
  requestFor<R>(slow: SlowOperation<R>): Request;
  /** Counts prepared collectives of a process set. */
  nextPrepared(set: ProcessSet | undefined, what: string): number;
  /** Undoes nextPrepared() for one that the others never counted. */
  returnPrepared(set: ProcessSet | undefined, what: string): void;
}

export interface SlowOperation<R> extends Pick<Request, 'resolve' | 'reject'> {
  readonly plan: Plan<R>;
  readonly options: CollectiveOptions;
  readonly key: string;
  /** As observers know it. */
  readonly sequence: number;
}

/**
 * One quick call's details. Each context has one and fills it anew for every call, so that a call allocates nothing;
 * whoever needs them for longer copies them.
 */
export class QuickCall {
  data!: TypedArray;
  /** Undefined: in place. */
  output: TypedArray | undefined;
  /** Undefined: a bare array. */
  shape: readonly number[] | undefined;
  dtype: DType = 'float32';
  op: ReduceOp = Sum;
  postscale = 1;
  channel!: Channel;
  quick!: QuickAllreduce;
  count = 0;
  dtypeAndOp = 0;
  readonly fingerprint: Fingerprint = new Fingerprint();
  readonly operation: ObservedOperation = new ObservedOperation();
  readonly #starts = new Map<number, Fingerprint>();

  /** False: this call must take the common way. */
  prepare(context: QuickRunner, x: TensorLike, options: AllreduceOptions): boolean {
    if (
      options.name !== undefined ||
      options.prescaleFactor !== undefined ||
      options.postscaleFactor !== undefined ||
      options.compression !== undefined ||
      options.signal !== undefined ||
      options.timeoutMs !== undefined
    ) {
      return false;
    }
    const op = options.op ?? Average;
    if (op !== Sum && op !== Average && op !== Min && op !== Max && op !== Product) return false;
    let data = x as TypedArray;
    let shape: readonly number[] | undefined;
    let dtype: DType | undefined;
    if (ArrayBuffer.isView(x)) {
      dtype = naturalDtype(x);
      if (dtype === undefined) return false;
    } else {
      // Only tensors that surely pass the checks of the common way.
      if (typeof x !== 'object' || x === null) return false;
      ({ data, shape, dtype } = x as Tensor);
      if (naturalDtype(data) !== dtype || !isShape(shape) || elementsIn(shape) !== data.length) return false;
    }
    if (data.length === 0) return false;
    const channel = context.quickChannel(options.processSet);
    const quick = channel?.group.quick;
    if (channel === undefined || quick === undefined) return false;

    const { code } = dtypes[dtype];
    this.data = data;
    this.output = options.inPlace === true ? undefined : emptyLike(data, data.length);
    this.shape = shape;
    this.dtype = dtype;
    this.op = op;
    this.postscale = op === Average ? 1 / channel.group.size : 1;
    this.channel = channel;
    this.quick = quick;
    this.dtypeAndOp = code | ((op === Average ? Sum : op).code << 8);
    this.count = channel.nextUnnamed();
    this.#describe(options.processSet?.id ?? 0);
    const start = this.#startOf(op.code, code, shape?.length ?? 1);
    finishQuickFingerprint(this.fingerprint, start, shape, data.length, this.count);
    return true;
  }

  #describe(processSet: number): void {
    const { operation } = this;
    operation.unnamed = this.count;
    operation.processSet = processSet;
    operation.dtype = this.dtype;
    operation.op = this.op.name;
    operation.shape = this.shape;
    operation.elements = this.data.length;
    operation.bytes = this.data.byteLength;
  }

  #startOf(opCode: number, dtypeCode: number, dimensions: number): Fingerprint {
    const key = opCode | (dtypeCode << 4) | (dimensions << 8);
    let start = this.#starts.get(key);
    if (start === undefined) {
      start = quickFingerprintStart(opCode, dtypeCode, dimensions);
      this.#starts.set(key, start);
    }
    return start;
  }
}
