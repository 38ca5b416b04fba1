// The blocking collectives on tf tensors, with gradients: they can stand inside a loss function under tf.grads() and
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
import * as core from '../../context/default/default-collectives.ts';
import { globalProcessSet } from '../../context/default/default-context.ts';
import { rank } from '../../context/default/default-membership.ts';
import { HorovodError } from '../../errors.ts';
import type {
  AllreduceOptions,
  AlltoallOptions,
  AlltoallResult,
  BroadcastOptions,
  CollectiveOptions,
  ReduceOptions,
} from '../../operations/options.ts';
import { Average, Sum } from '../../tensor/reduce-op.ts';
import type { TensorLike } from '../../tensor/tensor.ts';
import { broadcastTensorSync, exchangeSync, label, reduceSync } from './tensor-collectives.ts';
import { type CollectiveInput, isSource, tensorOf } from './tensor-operands.ts';

export function allreduceSync(
  xs: readonly CollectiveInput[],
  isGrouped: boolean,
  options: AllreduceOptions,
): CollectiveInput[] {
  const what = label(isGrouped ? 'groupedAllreduce' : 'allreduce', options);
  const ys = reduceSync(xs, options, what, (operands, o) =>
    isGrouped ? core.groupedAllreduceSync(operands, o) : [core.allreduceSync(operands[0] as TensorLike, o)],
  );
  // What was written into a variable is a change of state, not a value that depends on it.
  if (options.inPlace === true) return ys;
  return withGradients(xs, ys, what, (dys) => {
    const { op = Average } = options;
    if (op !== Sum && op !== Average) {
      throw new HorovodError(
        'ERR_HVD_UNSUPPORTED',
        `${what} with ${op.name} has no gradient; Sum and Average have. ` +
          'Reduce such values outside the function that is differentiated.',
      );
    }
    return allreduceSync(dys, isGrouped, forGradient(options)) as tf.Tensor[];
  });
}

export function allgatherSync(
  xs: readonly CollectiveInput[],
  isGrouped: boolean,
  options: CollectiveOptions,
): CollectiveInput[] {
  const what = label(isGrouped ? 'groupedAllgather' : 'allgather', options);
  const ys = exchangeSync(xs, options, what, (operands) =>
    isGrouped
      ? core.groupedAllgatherSync(operands, options)
      : [core.allgatherSync(operands[0] as TensorLike, options)],
  );
  return withGradients(xs, ys, what, (dys, inputs) => {
    const own = forGradient(options);
    const firstRows = rowsBefore(inputs, own);
    const averages = allreduceSync(dys, isGrouped, { ...own, op: Average }) as tf.Tensor[];
    return averages.map((average, i) => {
      const rows = (inputs[i] as tf.Tensor).shape[0] as number;
      return rowsOf(average, firstRows[i] as number, rows);
    });
  });
}

export function broadcastSync(
  x: CollectiveInput,
  rootRank: number,
  options: BroadcastOptions,
): CollectiveInput {
  const what = label('broadcast', options);
  const y = broadcastTensorSync(x, rootRank, options, what);
  if (options.inPlace === true) return y;
  const [result] = withGradients([x], [y], what, (dys) => {
    const [average] = allreduceSync(dys, false, { ...forGradient(options), op: Average }) as [tf.Tensor];
    return [rank() === rootRank ? average : tf.zerosLike(average)];
  });
  return result as CollectiveInput;
}

export function alltoallSync(x: CollectiveInput, options: AlltoallOptions): AlltoallResult<CollectiveInput> {
  const what = label('alltoall', options);
  let receivedSplits = new Int32Array(0);
  const ys = exchangeSync([x], options, what, ([operand]) => {
    const result = core.alltoallSync(operand as TensorLike, options);
    receivedSplits = Int32Array.from(result.receivedSplits);
    return [result.output];
  });
  const [output] = withGradients([x], ys, what, ([dy], [input]) => {
    const back = alltoallSync(dy as tf.Tensor, { ...forGradient(options), splits: receivedSplits });
    // Rows that no rank was sent have no gradient.
    const sent = back.output as tf.Tensor;
    const missing = ((input as tf.Tensor).shape[0] as number) - (sent.shape[0] as number);
    return [missing === 0 ? sent : tf.concat([sent, tf.zeros([missing, ...sent.shape.slice(1)])], 0)];
  });
  return { output: output as CollectiveInput, receivedSplits };
}

export function reducescatterSync(
  xs: readonly CollectiveInput[],
  isGrouped: boolean,
  options: ReduceOptions,
): CollectiveInput[] {
  const what = label(isGrouped ? 'groupedReducescatter' : 'reducescatter', options);
  const ys = exchangeSync(xs, options, what, (operands) =>
    isGrouped
      ? core.groupedReducescatterSync(operands, options)
      : [core.reducescatterSync(operands[0] as TensorLike, options)],
  );
  return withGradients(xs, ys, what, (dys) => {
    const { op = Average, prescaleFactor = 1, postscaleFactor = 1 } = options;
    const ranks = (options.processSet ?? globalProcessSet).ranks.length;
    const scale = (op === Sum ? ranks : 1) * prescaleFactor * postscaleFactor;
    const scaled = scale === 1 ? dys : dys.map((dy) => tf.mul(dy, scale));
    return allgatherSync(scaled, isGrouped, forGradient(options)) as tf.Tensor[];
  });
}

/**
 * Tells the tape, if one is on, how to get from gradients of `ys` to gradients of `xs`. Integers and plain arrays
 * have no gradients: `gradient` gets and gives those of the float32 tensors only, in their order.
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

/** tf.customGrad() knows functions of one value only: several travel through it as one row of numbers. */
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

/** A gradient is an operation of its own, so it has a name of its own. */
function forGradient<O extends CollectiveOptions>(options: O): O {
  return options.name === undefined ? options : { ...options, name: `${options.name}.gradient` };
}
