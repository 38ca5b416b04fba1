// The collectives on lists that hold tf tensors: read, run in the core, wrap. Each takes the core's function as an
// argument, so that one and several tensors, and every kind, go the same way. Gradients are the business of
// collective-gradients.ts.
//
// Sync forms give the core the tensors' own memory: on the WASM backend the heap, and an allreduce or broadcast
// writes its result into the heap too. Promise forms copy: the core may read long after the next call of tf.

import * as tf from '@tensorflow/tfjs';
import { broadcast, broadcastSync } from '../../context/default/default-collectives.ts';
import { globalProcessSet } from '../../context/default/default-context.ts';
import { rank } from '../../context/default/default-membership.ts';
import { HorovodError } from '../../errors.ts';
import {
  type AllreduceOptions,
  type BroadcastOptions,
  type CollectiveOptions,
  checkOptions,
} from '../../operations/options.ts';
import type { TypedArray } from '../../tensor/dtype.ts';
import { describe, type Tensor, type TensorLike } from '../../tensor/tensor.ts';
import { blankTensor, dtypeOf, liveView, makeTensor } from './tensor-access.ts';
import {
  assignAndDispose,
  borrow,
  type CollectiveInput,
  copiesOf,
  copyOf,
  isSource,
  tensorOf,
  toTensor,
  variableOf,
} from './tensor-operands.ts';

type CoreCall<O, R> = (xs: readonly TensorLike[], options: O) => R;

/** An allreduce of a list with at least one source: results of the kinds given, in their order. */
export function reduceSync(
  xs: readonly CollectiveInput[],
  options: AllreduceOptions,
  what: string,
  run: CoreCall<AllreduceOptions, readonly TensorLike[]>,
): CollectiveInput[] {
  const plan = planReduction(xs, options, what);
  // All tensors are made before any view is taken: making one may move the heap.
  const targets = plan.isInPlace
    ? plan.tensors.map((x) => (x instanceof tf.Tensor ? blankTensor(x.shape, x.dtype) : undefined))
    : [];
  // Without targets to write into, the core's own result array is as good: it becomes the tensor's memory.
  if (options.inPlace !== true && targets.every((target) => target === undefined)) {
    const borrowed = plan.tensors.map((x) => (x instanceof tf.Tensor ? borrow(x, what) : x));
    return run(borrowed, options).map((result, i) => plan.wrap(result, i));
  }
  try {
    const operands = plan.tensors.map((x, i) => {
      if (!(x instanceof tf.Tensor)) return x;
      const target = targets[i];
      return target === undefined ? copyOf(x, what) : copyInto(target, x, what);
    });
    const results = run(operands, { ...options, inPlace: true });
    return results.map((result, i) => plan.wrap(result, i, targets[i]));
  } catch (error) {
    tf.dispose(targets.filter((target) => target !== undefined && !target.isDisposed) as tf.Tensor[]);
    throw error;
  }
}

/** As reduceSync(), as a promise. */
export async function reduce(
  xs: readonly CollectiveInput[],
  options: AllreduceOptions,
  what: string,
  run: CoreCall<AllreduceOptions, Promise<readonly TensorLike[]>>,
): Promise<CollectiveInput[]> {
  const plan = planReduction(xs, options, what);
  const copies = copiesOf(plan.tensors, what);
  const operands = copies instanceof Promise ? await copies : copies;
  const results = await run(operands, { ...options, inPlace: plan.isInPlace });
  return results.map((result, i) => plan.wrap(result, i));
}

/** Collectives whose results are other arrays than their inputs: allgather, reducescatter, alltoall. */
export function exchangeSync(
  xs: readonly CollectiveInput[],
  options: CollectiveOptions,
  what: string,
  run: CoreCall<unknown, readonly TensorLike[]>,
): CollectiveInput[] {
  const tensors = tensorsOf(xs, options, what);
  const results = run(
    tensors.map((x) => (x instanceof tf.Tensor ? borrow(x, what) : x)),
    options,
  );
  return results.map((result, i) => wrapLike(tensors[i], result));
}

/** As exchangeSync(), as a promise. */
export async function exchange(
  xs: readonly CollectiveInput[],
  options: CollectiveOptions,
  what: string,
  run: CoreCall<unknown, Promise<readonly TensorLike[]>>,
): Promise<CollectiveInput[]> {
  const tensors = tensorsOf(xs, options, what);
  const copies = copiesOf(tensors, what);
  const results = await run(copies instanceof Promise ? await copies : copies, options);
  return results.map((result, i) => wrapLike(tensors[i], result));
}

/** The root reads its tensor, the others write theirs: nobody does both. */
export function broadcastTensorSync(
  x: CollectiveInput,
  rootRank: number,
  options: BroadcastOptions,
  what: string,
): CollectiveInput {
  const plan = planBroadcast(x, rootRank, options, what);
  const { tensor } = plan;
  if (plan.isRoot) {
    broadcastSync(borrow(tensor, what), rootRank, { ...options, inPlace: true });
    return plan.finish(undefined);
  }
  const target = blankTensor(tensor.shape, tensor.dtype);
  const operand = target === undefined ? blankLike(tensor, what) : viewOf(target, what);
  try {
    broadcastSync(operand, rootRank, { ...options, inPlace: true });
  } catch (error) {
    target?.dispose();
    throw error;
  }
  return plan.finish(target ?? makeTensor(operand.data, tensor.shape, tensor.dtype));
}

/** As broadcastTensorSync(), as a promise. */
export async function broadcastTensor(
  x: CollectiveInput,
  rootRank: number,
  options: BroadcastOptions,
  what: string,
): Promise<CollectiveInput> {
  const plan = planBroadcast(x, rootRank, options, what);
  const { tensor } = plan;
  const copies = plan.isRoot ? copiesOf([tensor], what) : [blankLike(tensor, what)];
  // What the root gives back has its values of now, even if the variable changes while others receive them.
  const own = plan.isRoot && options.inPlace !== true ? tf.keep(tensor.clone()) : undefined;
  try {
    const [operand] = (copies instanceof Promise ? await copies : copies) as [Tensor];
    await broadcast(operand, rootRank, { ...options, inPlace: true });
    if (plan.isRoot) return own ?? x;
    return plan.finish(makeTensor(operand.data, operand.shape, tensor.dtype));
  } catch (error) {
    own?.dispose();
    throw error;
  }
}

/** How errors name a call. It is the first to look at the options. */
export function label(call: string, options: CollectiveOptions): string {
  checkOptions(options, call);
  return options.name === undefined ? call : `${call} "${options.name}"`;
}

export function checkIsList(xs: unknown, what: string): asserts xs is readonly CollectiveInput[] {
  if (Array.isArray(xs)) return;
  throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', `${what} takes a list of tensors, not ${describe(xs)}.`);
}

interface ReductionPlan {
  readonly tensors: readonly (tf.Tensor | TensorLike)[];
  /** The core writes into what it is given: copies of ours, or arrays of a user who asked for it. */
  readonly isInPlace: boolean;
  /** The result for place `i`; `target` is the tensor that already holds it. */
  wrap(result: TensorLike, i: number, target?: tf.Tensor): CollectiveInput;
}

function planReduction(
  xs: readonly CollectiveInput[],
  options: AllreduceOptions,
  what: string,
): ReductionPlan {
  const tensors = tensorsOf(xs, options, what);
  const variables = options.inPlace === true ? variablesOf(xs, what) : undefined;
  return {
    tensors,
    isInPlace: variables !== undefined || tensors.every((x) => x instanceof tf.Tensor),
    wrap(result, i, target) {
      const source = tensors[i];
      if (!(source instanceof tf.Tensor)) return result;
      const made = target ?? toTensor(result, source);
      const variable = variables?.[i];
      if (variable === undefined) return made;
      assignAndDispose(variable, made);
      return xs[i] as CollectiveInput;
    },
  };
}

function planBroadcast(x: CollectiveInput, rootRank: number, options: BroadcastOptions, what: string) {
  const [tensor] = tensorsOf([x], options, what) as [tf.Tensor];
  const variable = options.inPlace === true ? variablesOf([x], what)[0] : undefined;
  const { ranks } = options.processSet ?? globalProcessSet;
  return {
    tensor,
    // A root that is not in the set is for the core to refuse.
    isRoot: rank() === rootRank || !ranks.includes(rootRank),
    /** Undefined on the root, which has the values already. */
    finish(received: tf.Tensor | undefined): CollectiveInput {
      if (variable === undefined) return received ?? tensor.clone();
      if (received !== undefined) assignAndDispose(variable, received);
      return x;
    },
  };
}

/** Each source's tensor; everything that can be wrong on this rank alone is found here. */
function tensorsOf(
  xs: readonly CollectiveInput[],
  options: CollectiveOptions,
  what: string,
): (tf.Tensor | TensorLike)[] {
  checkOptions(options, what);
  return xs.map((x) => (isSource(x) ? tensorOf(x, what) : x));
}

function variablesOf(xs: readonly CollectiveInput[], what: string): (tf.Variable | undefined)[] {
  const variables = xs.map((x) => (isSource(x) ? variableOf(x, what) : undefined));
  const named = variables.filter((variable) => variable !== undefined);
  if (new Set(named).size === named.length) return variables;
  throw new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `${what}: the same variable is in the group twice and inPlace.`,
  );
}

function wrapLike(source: tf.Tensor | TensorLike | undefined, result: TensorLike): CollectiveInput {
  return source instanceof tf.Tensor ? toTensor(result, source) : result;
}

function viewOf(tensor: tf.Tensor, what: string): Tensor {
  const { shape } = tensor;
  return { data: liveView(tensor) as TypedArray, shape, dtype: dtypeOf(tensor, what) };
}

function copyInto(target: tf.Tensor, source: tf.Tensor, what: string): Tensor {
  const view = viewOf(target, what);
  (view.data as Float32Array).set(borrow(source, what).data as Float32Array);
  return view;
}

/** An array for what will be received. */
function blankLike(tensor: tf.Tensor, what: string): Tensor {
  const { dtype, shape, size } = tensor;
  const kind = dtype === 'float32' ? Float32Array : dtype === 'int32' ? Int32Array : Uint8Array;
  return { data: new kind(size), shape, dtype: dtypeOf(tensor, what) };
}
