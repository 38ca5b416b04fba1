// Between tf.Tensor and the core: what a collective takes, how its values are read, and what comes back. A *source* is
// anything in TensorFlow.js that has values: a tf.Tensor, a tf.Variable or a layer's LayerVariable. The result is a new
// tf.Tensor of the same dtype; the source is never disposed.

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../errors.ts';
import { invalidArgument } from '../../operations/options.ts';
import type { TypedArray } from '../../tensor/dtype.ts';
import type { Tensor, TensorLike } from '../../tensor/tensor.ts';
import { dtypeOf, makeTensor, readTensor, readTensorLater } from './tensor-access.ts';

export type TensorSource = tf.Tensor | tf.LayerVariable;

/** What the collectives of horovod/tensorflow take. */
export type CollectiveInput = TensorLike | TensorSource;

/** The type of a result: a plain tensor for a variable, the same type for everything else. */
export type CollectiveResult<T> =
  T extends tf.Variable<infer R> ? tf.Tensor<R> : T extends tf.LayerVariable ? tf.Tensor : T;

/** CollectiveResult of each member of a list. */
export type CollectiveResults<T extends readonly CollectiveInput[]> = {
  [K in keyof T]: CollectiveResult<T[K]>;
};

export function isSource(x: unknown): x is TensorSource {
  return typeof x === 'object' && x !== null && (x instanceof tf.Tensor || x instanceof tf.LayerVariable);
}

/** The tensor of a source, of a dtype that can travel; `what` is named in errors. */
export function tensorOf(source: TensorSource, what: string): tf.Tensor {
  const tensor = source instanceof tf.LayerVariable ? source.read() : source;
  if (tensor.isDisposed) {
    throw invalidArgument(`${what}: the tensor has been disposed.`);
  }
  dtypeOf(tensor, what);
  return tensor;
}

/** The tf.Variable of a source, for inPlace; a plain tensor is an error. */
export function variableOf(source: TensorSource, what: string): tf.Variable {
  // Not read() and write(): read() may be wrapped while gradients are computed, and write() applies the constraint.
  const variable =
    source instanceof tf.LayerVariable ? (source as unknown as { val: tf.Variable }).val : source;
  if (variable instanceof tf.Variable) return variable;
  throw invalidArgument(
    `${what}: a tf.Tensor cannot change, so inPlace takes tf.Variable and LayerVariable only. Use the result instead.`,
  );
}

/** Assigns the value to the variable and disposes of it. */
export function assignAndDispose(variable: tf.Variable, value: tf.Tensor): void {
  try {
    variable.assign(value);
  } finally {
    value.dispose();
  }
}

/** For the core, to be read before the next call of tf. */
export function borrow(tensor: tf.Tensor, what: string): Tensor {
  return { data: valuesOf(tensor), shape: tensor.shape, dtype: dtypeOf(tensor, what) };
}

/** A copy for the core. */
export function copyOf(tensor: tf.Tensor, what: string): Tensor {
  const { data, shape, dtype } = borrow(tensor, what);
  return { data: data.slice(), shape, dtype };
}

/**
 * As copyOf() for each source; other members stay as they are. No promise where values can be read at once: calls then
 * reach the other ranks in the order in which they were made.
 */
export function copiesOf(
  xs: readonly CollectiveInput[],
  what: string,
): readonly TensorLike[] | Promise<readonly TensorLike[]> {
  const tensors = xs.map((x) => (isSource(x) ? tensorOf(x, what) : x));
  if (readsAtOnce()) return tensors.map((x) => (x instanceof tf.Tensor ? copyOf(x, what) : x));
  return Promise.all(
    tensors.map(async (x): Promise<TensorLike> => {
      if (!(x instanceof tf.Tensor)) return x;
      const { shape } = x;
      const dtype = dtypeOf(x, what);
      return { data: (await valuesLaterOf(x)).slice(), shape, dtype };
    }),
  );
}

/** The core's result, as a tensor of the source's dtype. Nobody else may hold the result's array. */
export function toTensor(result: TensorLike, source: tf.Tensor): tf.Tensor {
  const { data, shape } = result as Tensor;
  return makeTensor(data, shape, source.dtype);
}

/** Can values be read without waiting for a device? On WebGL and WebGPU a read is a promise, or blocks. */
export function readsAtOnce(): boolean {
  return ['cpu', 'wasm', 'tensorflow'].includes(tf.getBackend());
}

/** To be read before the next call of tf. */
export function valuesOf(tensor: tf.Tensor): TypedArray {
  if (tensor.size === 0) return blankValues(tensor);
  if (readsAtOnce()) return readTensor(tensor);
  try {
    return readTensor(tensor);
  } catch (cause) {
    throw new HorovodError(
      'ERR_HVD_UNSUPPORTED',
      `the values of a tensor cannot be read synchronously on the ${tf.getBackend()} backend: ${(cause as Error).message} ` +
        'Use the promise form of this function.',
      { cause },
    );
  }
}

export async function valuesLaterOf(tensor: tf.Tensor): Promise<TypedArray> {
  return tensor.size === 0 ? blankValues(tensor) : readTensorLater(tensor);
}

/** A new array for the values of such a tensor. */
export function blankValues({ dtype, size }: tf.Tensor): TypedArray {
  if (dtype === 'float32') return new Float32Array(size);
  return dtype === 'int32' ? new Int32Array(size) : new Uint8Array(size);
}
