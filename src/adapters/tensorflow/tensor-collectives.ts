// Collectives on lists that hold tf tensors: read them, run the core's collective, make tensors of the results. A list may
// hold typed arrays and tensors of the core, too. Gradients are added in collective-gradients.ts.
//
// Sync forms give the core the memory of the tensors. On the WASM backend that is the heap, and an allreduce or broadcast
// writes its result into the heap, too. Promise forms copy, since the core may read long after the next call of tf.

import * as tf from '@tensorflow/tfjs';
import {
  type AllreduceOptions,
  type BroadcastOptions,
  type CollectiveOptions,
  invalidArgument,
  labelOf,
} from '../../operations/options.ts';
import type { TypedArray } from '../../tensor/dtype.ts';
import type { Tensor, TensorLike } from '../../tensor/tensor.ts';
import { core, globalProcessSet, rank } from '../context.ts';
import { blankTensor, dtypeOf, liveView, makeTensor } from './tensor-access.ts';
import {
  assignAndDispose,
  blankValues,
  borrow,
  type CollectiveInput,
  copiesOf,
  copyOf,
  isSource,
  type TensorSource,
  tensorOf,
  toTensor,
  variableOf,
} from './tensor-operands.ts';

/** A call with at least one source in its list. */
export interface ListCall<O extends CollectiveOptions> {
  readonly xs: readonly CollectiveInput[];
  readonly options: O;
  readonly what: string;
  /** Results have the shapes of the inputs, and the core can write them there. */
  readonly takesInPlace?: boolean;
}

/** `runCore` is the core's collective. Results are of the kinds given, in their order. */
export async function run<O extends CollectiveOptions>(
  call: ListCall<O>,
  runCore: (operands: readonly TensorLike[], options: O) => Promise<readonly TensorLike[]>,
): Promise<CollectiveInput[]> {
  const { tensors, isInPlace, wrap } = planList(call);
  const copies = copiesOf(tensors, call.what);
  const operands = copies instanceof Promise ? await copies : copies;
  const results = await runCore(operands, isInPlace ? { ...call.options, inPlace: true } : call.options);
  return results.map((result, i) => wrap(result, i));
}

/** The blocking form of run(). */
export function runSync<O extends CollectiveOptions>(
  call: ListCall<O>,
  runCore: (operands: readonly TensorLike[], options: O) => readonly TensorLike[],
): CollectiveInput[] {
  const { tensors, variables, isInPlace, wrap } = planList(call);
  const { options, what } = call;
  // All tensors are made before any view is taken: making one may move the heap.
  const targets = isInPlace
    ? tensors.map((x) => (x instanceof tf.Tensor ? blankTensor(x.shape, x.dtype) : undefined))
    : [];
  // Without targets to write into, the core's result array becomes the tensor's memory.
  if (variables === undefined && targets.every((target) => target === undefined)) {
    const borrowed = tensors.map((x) => (x instanceof tf.Tensor ? borrow(x, what) : x));
    return runCore(borrowed, options).map((result, i) => wrap(result, i));
  }
  try {
    const operands = tensors.map((x, i) => {
      if (!(x instanceof tf.Tensor)) return x;
      const target = targets[i];
      return target === undefined ? copyOf(x, what) : copyInto(target, x, what);
    });
    const results = runCore(operands, { ...options, inPlace: true });
    return results.map((result, i) => wrap(result, i, targets[i]));
  } catch (error) {
    tf.dispose(targets.filter((target) => target !== undefined && !target.isDisposed) as tf.Tensor[]);
    throw error;
  }
}

/** The root reads its tensor, the others write theirs: nobody does both. */
export function broadcastTensorSync(
  x: TensorSource,
  rootRank: number,
  options: BroadcastOptions,
): CollectiveInput {
  const plan = planBroadcast(x, rootRank, options);
  const { tensor, what } = plan;
  if (plan.isRoot) {
    core.broadcastSync(borrow(tensor, what), rootRank, { ...options, inPlace: true });
    return plan.finish(undefined);
  }
  const target = blankTensor(tensor.shape, tensor.dtype);
  const operand = target === undefined ? blankLike(tensor, what) : viewOf(target, what);
  try {
    core.broadcastSync(operand, rootRank, { ...options, inPlace: true });
  } catch (error) {
    target?.dispose();
    throw error;
  }
  return plan.finish(target ?? makeTensor(operand.data, tensor.shape, tensor.dtype));
}

/** As broadcastTensorSync(), as a promise. */
export async function broadcastTensor(
  x: TensorSource,
  rootRank: number,
  options: BroadcastOptions,
): Promise<CollectiveInput> {
  const plan = planBroadcast(x, rootRank, options);
  const { tensor, what } = plan;
  const copies = plan.isRoot ? copiesOf([tensor], what) : [blankLike(tensor, what)];
  // What the root gives back has its values of now, even if the variable changes while others receive them.
  const own = plan.isRoot && options.inPlace !== true ? tf.keep(tensor.clone()) : undefined;
  try {
    const [operand] = (copies instanceof Promise ? await copies : copies) as [Tensor];
    await core.broadcast(operand, rootRank, { ...options, inPlace: true });
    if (plan.isRoot) return own ?? x;
    return plan.finish(makeTensor(operand.data, operand.shape, tensor.dtype));
  } catch (error) {
    own?.dispose();
    throw error;
  }
}

interface ListPlan {
  readonly tensors: readonly (tf.Tensor | TensorLike)[];
  /** The variables to assign results to, if the caller asked for that. */
  readonly variables: readonly (tf.Variable | undefined)[] | undefined;
  /** The core writes into what it is given: our copies, or arrays of a caller who asked for that. */
  readonly isInPlace: boolean;
  /** The result for place `i`; `target` is the tensor that already holds it. */
  wrap(result: TensorLike, i: number, target?: tf.Tensor): CollectiveInput;
}

/** Finds everything that can be wrong on this rank alone. */
function planList({ xs, options, what, takesInPlace = false }: ListCall<AllreduceOptions>): ListPlan {
  const tensors = xs.map((x) => (isSource(x) ? tensorOf(x, what) : x));
  const variables = takesInPlace && options.inPlace === true ? variablesOf(xs, what) : undefined;
  return {
    tensors,
    variables,
    isInPlace: takesInPlace && (variables !== undefined || tensors.every((x) => x instanceof tf.Tensor)),
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

function planBroadcast(x: TensorSource, rootRank: number, options: BroadcastOptions) {
  const what = labelOf('broadcast', options);
  const tensor = tensorOf(x, what);
  const variable = options.inPlace === true ? variablesOf([x], what)[0] : undefined;
  const { ranks } = options.processSet ?? globalProcessSet;
  return {
    tensor,
    what,
    // The core rejects a root that is not in the set.
    isRoot: rank() === rootRank || !ranks.includes(rootRank),
    /** Undefined on the root, which has the values already. */
    finish(received: tf.Tensor | undefined): CollectiveInput {
      if (variable === undefined) return received ?? tensor.clone();
      if (received !== undefined) assignAndDispose(variable, received);
      return x;
    },
  };
}

function variablesOf(xs: readonly CollectiveInput[], what: string): (tf.Variable | undefined)[] {
  const variables = xs.map((x) => (isSource(x) ? variableOf(x, what) : undefined));
  const named = variables.filter((variable) => variable !== undefined);
  if (new Set(named).size === named.length) return variables;
  throw invalidArgument(`${what}: the same variable is in the group twice and inPlace.`);
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
  return { data: blankValues(tensor), shape: tensor.shape, dtype: dtypeOf(tensor, what) };
}
