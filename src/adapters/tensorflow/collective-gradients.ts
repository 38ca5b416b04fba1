// The blocking collectives on tf tensors, with gradients: they can be used in a loss function under tf.grads() and
// tf.variableGrads(). The gradient of each is a collective again, as Horovod defines it:
//
//   allreduce       the same allreduce of the upstream gradient: same operator, scales and process set
//   allgather       the upstream gradients averaged over the ranks; then the rows that were this rank's
//   broadcast       the upstream gradients averaged over the ranks, on the root; zeros elsewhere
//   alltoall        the gradient's rows go back to the ranks they came from
//   reducescatter   the upstream gradients gathered, times the scales; for Sum also times the number of ranks
//
// Backpropagation walks the tape in the same order on every rank, so these calls match like any others. A rank whose
// loss does not depend on the result makes no such call, and the others wait for it.

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../errors.ts';
import {
  type AllreduceOptions,
  type AlltoallOptions,
  type AlltoallResult,
  type BroadcastOptions,
  type CollectiveOptions,
  labelOf,
  type ReduceOptions,
} from '../../operations/options.ts';
import { Average, Sum } from '../../tensor/reduce-op.ts';
import type { TensorLike } from '../../tensor/tensor.ts';
import { core, globalProcessSet, rank } from '../context.ts';
import { broadcastTensorSync, runSync } from './tensor-collectives.ts';
import { type CollectiveInput, isSource, type TensorSource, tensorOf } from './tensor-operands.ts';

/** A collective on one tensor or several: the core's forms of it, and its gradient. */
export interface ListCollective<O extends CollectiveOptions> {
  readonly name: string;
  readonly groupName: string;
  /** Results have the shapes of the inputs, and the core can write them there. */
  readonly takesInPlace?: boolean;
  one(x: TensorLike, options: O): Promise<TensorLike>;
  oneSync(x: TensorLike, options: O): TensorLike;
  group(xs: readonly TensorLike[], options: O): Promise<readonly TensorLike[]>;
  groupSync(xs: readonly TensorLike[], options: O): readonly TensorLike[];
  gradient(call: GradientCall<O>): tf.Tensor[];
}

interface GradientCall<O> {
  /** The upstream gradients of the float32 tensors, and those tensors. */
  readonly dys: readonly tf.Tensor[];
  readonly inputs: readonly tf.Tensor[];
  readonly isGrouped: boolean;
  /** Of the gradient, which is an operation with another name. */
  readonly options: O;
  readonly what: string;
}

export const allreduce: ListCollective<AllreduceOptions> = {
  name: 'allreduce',
  groupName: 'groupedAllreduce',
  takesInPlace: true,
  one: core.allreduce,
  oneSync: core.allreduceSync,
  group: core.groupedAllreduce,
  groupSync: core.groupedAllreduceSync,
  gradient({ dys, isGrouped, options, what }) {
    const { op = Average } = options;
    if (op === Sum || op === Average) return listSync(allreduce, dys, isGrouped, options) as tf.Tensor[];
    throw new HorovodError(
      'ERR_HVD_UNSUPPORTED',
      `${what} with ${op.name} has no gradient; Sum and Average have one. ` +
        'Reduce such values outside the function that you differentiate.',
    );
  },
};

export const allgather: ListCollective<CollectiveOptions> = {
  name: 'allgather',
  groupName: 'groupedAllgather',
  one: core.allgather,
  oneSync: core.allgatherSync,
  group: core.groupedAllgather,
  groupSync: core.groupedAllgatherSync,
  gradient({ dys, inputs, isGrouped, options }) {
    const firstRows = rowsBefore(inputs, options);
    const averages = listSync(allreduce, dys, isGrouped, { ...options, op: Average }) as tf.Tensor[];
    return averages.map((average, i) => {
      const rows = (inputs[i] as tf.Tensor).shape[0] as number;
      return rowsOf(average, firstRows[i] as number, rows);
    });
  },
};

export const reducescatter: ListCollective<ReduceOptions> = {
  name: 'reducescatter',
  groupName: 'groupedReducescatter',
  one: core.reducescatter,
  oneSync: core.reducescatterSync,
  group: core.groupedReducescatter,
  groupSync: core.groupedReducescatterSync,
  gradient({ dys, isGrouped, options }) {
    const { op = Average, prescaleFactor = 1, postscaleFactor = 1 } = options;
    const ranks = (options.processSet ?? globalProcessSet).ranks.length;
    const scale = (op === Sum ? ranks : 1) * prescaleFactor * postscaleFactor;
    const scaled = scale === 1 ? dys : dys.map((dy) => tf.mul(dy, scale));
    return listSync(allgather, scaled, isGrouped, options) as tf.Tensor[];
  },
};

/** The blocking form of a collective, of a list with at least one source. */
export function listSync<O extends CollectiveOptions & { inPlace?: boolean | undefined }>(
  collective: ListCollective<O>,
  xs: readonly CollectiveInput[],
  isGrouped: boolean,
  options: O,
): CollectiveInput[] {
  const { takesInPlace = false } = collective;
  const what = labelOf(isGrouped ? collective.groupName : collective.name, options);
  const ys = runSync({ xs, options, what, takesInPlace }, (operands, given) =>
    isGrouped
      ? collective.groupSync(operands, given)
      : [collective.oneSync(operands[0] as TensorLike, given)],
  );
  // Writing into a variable changes state; there is no value that depends on the inputs.
  if (takesInPlace && options.inPlace === true) return ys;
  return withGradients(xs, ys, what, (dys, inputs) =>
    collective.gradient({ dys, inputs, isGrouped, options: forGradient(options), what }),
  );
}

export function broadcastSync(x: TensorSource, rootRank: number, options: BroadcastOptions): CollectiveInput {
  const y = broadcastTensorSync(x, rootRank, options);
  if (options.inPlace === true) return y;
  const [result] = withGradients([x], [y], labelOf('broadcast', options), (dys) => {
    const averaging = { ...forGradient(options), op: Average };
    const [average] = listSync(allreduce, dys, false, averaging) as [tf.Tensor];
    return [rank() === rootRank ? average : tf.zerosLike(average)];
  });
  return result as CollectiveInput;
}

export function alltoallSync(x: TensorSource, options: AlltoallOptions): AlltoallResult<CollectiveInput> {
  const what = labelOf('alltoall', options);
  let receivedSplits = new Int32Array(0);
  const ys = runSync({ xs: [x], options, what }, ([operand]) => {
    const result = core.alltoallSync(operand as TensorLike, options);
    receivedSplits = Int32Array.from(result.receivedSplits);
    return [result.output];
  });
  const [output] = withGradients([x], ys, what, ([dy], [input]) => {
    const back = alltoallSync(dy as tf.Tensor, { ...forGradient(options), splits: receivedSplits });
    // Rows that were sent to no rank have no gradient.
    const sent = back.output as tf.Tensor;
    const missing = ((input as tf.Tensor).shape[0] as number) - (sent.shape[0] as number);
    return [missing === 0 ? sent : tf.concat([sent, tf.zeros([missing, ...sent.shape.slice(1)])], 0)];
  });
  return { output: output as CollectiveInput, receivedSplits };
}

/**
 * Tells the tape, if one is on, how to get from gradients of `ys` to gradients of `xs`. Integers and plain arrays
 * have no gradients: `gradient` takes and returns those of the float32 tensors only, in their order.
 */
function withGradients(
  xs: readonly CollectiveInput[],
  ys: readonly CollectiveInput[],
  what: string,
  gradient: (dys: tf.Tensor[], inputs: readonly tf.Tensor[]) => tf.Tensor[],
): CollectiveInput[] {
  if (!tf.engine().isTapeOn()) return [...ys];
  const places = xs.flatMap((x, i) => (isSource(x) && x.dtype === 'float32' ? [i] : []));
  if (places.length === 0) return [...ys];
  const inputs = places.map((i) => tensorOf(xs[i] as tf.Tensor, what));
  const values = places.map((i) => ys[i] as tf.Tensor);
  const results = [...ys];
  const differentiable = values.length === 1 ? passOne : passSeveral;
  differentiable(inputs, values, (dys) => gradient(dys, inputs)).forEach((result, i) => {
    results[places[i] as number] = result;
  });
  return results;
}

type Gradient = (dys: tf.Tensor[]) => tf.Tensor[];

function passOne(inputs: tf.Tensor[], [value]: tf.Tensor[], gradient: Gradient): tf.Tensor[] {
  const pass = tf.customGrad(() => ({
    value: (value as tf.Tensor).clone(),
    gradFunc: (dy: tf.Tensor) => gradient([dy]),
  }));
  return [pass(...inputs)];
}

/** tf.customGrad() takes functions of one value only: several travel through it as one row of numbers. */
function passSeveral(inputs: tf.Tensor[], values: tf.Tensor[], gradient: Gradient): tf.Tensor[] {
  const sizes = values.map(({ size }) => size);
  const unpack = (row: tf.Tensor) =>
    tf.split(row, sizes).map((part, i) => tf.reshape(part, (values[i] as tf.Tensor).shape));
  const pass = tf.customGrad(() => ({
    value: tf.concat(values.map((value) => tf.reshape(value, [value.size]))),
    gradFunc: (dy: tf.Tensor) => gradient(unpack(dy)),
  }));
  return unpack(pass(...inputs));
}

/** Where each input's rows begin in the gathered tensor. */
function rowsBefore(inputs: readonly tf.Tensor[], options: CollectiveOptions): number[] {
  const own = Int32Array.from(inputs, ({ shape }) => shape[0] as number);
  const name = options.name === undefined ? undefined : `${options.name}.rows`;
  const all = core.allgatherSync(own, { ...options, name });
  const { ranks } = options.processSet ?? globalProcessSet;
  const place = ranks.indexOf(rank());
  return inputs.map((_, i) => {
    let rows = 0;
    for (let member = 0; member < place; member++) rows += all[member * inputs.length + i] as number;
    return rows;
  });
}

function rowsOf(tensor: tf.Tensor, first: number, rows: number): tf.Tensor {
  const rest = tensor.shape.slice(1);
  if (rows === 0) return tf.zeros([0, ...rest]);
  return tf.slice(tensor, [first, ...rest.map(() => 0)], [rows, ...rest]);
}

/** A gradient is another operation, so it needs another name. */
function forGradient<O extends CollectiveOptions>(options: O): O {
  return options.name === undefined ? options : { ...options, name: `${options.name}.gradient` };
}
