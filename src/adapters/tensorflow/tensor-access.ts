// The memory behind a tf.Tensor, as typed arrays that the core can move and reduce. Each backend keeps values in another place:
// `wasm` in its heap, `cpu` in a JavaScript array, `tensorflow` (tfjs-node) in TensorFlow's memory, a GPU backend on its device.
//
// Words. A *live view* is the memory of the tensor itself: reading costs no copy, writing changes the tensor. It is valid until
// the next call of tf: any allocation may grow the WASM heap, which detaches the view (length 0).

import * as tf from '@tensorflow/tfjs';
import { invalid } from '../../operations/check-options.ts';
import type { DType, TypedArray } from '../../tensor/dtype.ts';

/** What of BackendWasm and MathBackendCPU is used here; declared by both, documented by neither. */
interface OpenBackend {
  typedArrayFromHeap?(info: tf.TensorInfo): TypedArray;
  /** Of wasm. */
  dataIdMap?: { has(dataId: object): boolean };
  wasm?: { asm?: Record<string, { readonly buffer: ArrayBufferLike } | undefined> };
  /** Of cpu. */
  data?: { has(dataId: object): boolean; get(dataId: object): { values?: unknown } };
  refCount?(dataId: object): number;
  makeOutput?(shape: number[], dtype: tf.DataType): tf.TensorInfo;
}

/** The core's dtype for a tensor's; strings and complex numbers cannot be reduced. */
export function dtypeOf(tensor: tf.Tensor, what: string): DType {
  const { dtype } = tensor;
  if (dtype === 'float32' || dtype === 'int32' || dtype === 'bool') return dtype;
  throw invalid(
    what,
    `tensors of dtype ${dtype} cannot take part in collectives; float32, int32 and bool can`,
  );
}

/**
 * The tensor's memory, to be read or written before the next call of tf; undefined where the backend has no memory
 * that JavaScript can reach, or keeps the values as another type than the tensor's.
 */
export function liveView(tensor: tf.Tensor): TypedArray | undefined {
  if (tensor.isDisposed || tensor.size === 0) return undefined;
  const backend = tf.backend() as unknown as OpenBackend;
  const name = tf.getBackend();
  // A tensor made under another backend lives there until it is used in this one.
  if (name === 'wasm') {
    return backend.dataIdMap?.has(tensor.dataId) ? backend.typedArrayFromHeap?.(tensor) : undefined;
  }
  if (name !== 'cpu' || !backend.data?.has(tensor.dataId)) return undefined;
  const { values } = backend.data.get(tensor.dataId);
  return isOfType(values, tensor.dtype) ? values : undefined;
}

/** The memory that live views of this backend lie in, if it is one piece that grows (wasm). */
export function heapOfBackend(): { readonly buffer: ArrayBufferLike } | undefined {
  if (tf.getBackend() !== 'wasm') return undefined;
  return (tf.backend() as unknown as OpenBackend).wasm?.asm?.['memory'];
}

/** Whether no other tensor shares this tensor's memory. */
export function isSoleOwner(tensor: tf.Tensor): boolean {
  const backend = tf.backend() as unknown as OpenBackend;
  return backend.refCount?.(tensor.dataId) === 1;
}

/** The tensor's values, to be read before the next call of tf. Blocks where they lie on a device. */
export function readTensor(tensor: tf.Tensor): TypedArray {
  return liveView(tensor) ?? typed(tensor.dataSync(), tensor.dtype);
}

/** As readTensor(), for backends that can only be read asynchronously (WebGPU). */
export async function readTensorLater(tensor: tf.Tensor): Promise<TypedArray> {
  return liveView(tensor) ?? typed(await tensor.data(), tensor.dtype);
}

/** A new tensor with these values. Do not use the array afterwards: some backends keep it. */
export function makeTensor(data: TypedArray, shape: readonly number[], dtype: tf.DataType): tf.Tensor {
  return tf.tensor(data as Float32Array, shape as number[], dtype);
}

/**
 * A new tensor whose memory the caller will fill through liveView(); until then its values are arbitrary. Undefined where
 * tensors are always made from an array (makeTensor).
 */
export function blankTensor(shape: readonly number[], dtype: tf.DataType): tf.Tensor | undefined {
  const backend = tf.backend() as unknown as OpenBackend;
  if (tf.getBackend() !== 'wasm' || backend.makeOutput === undefined || shape.includes(0)) return undefined;
  return tf.engine().makeTensorFromTensorInfo(backend.makeOutput(shape as number[], dtype));
}

/** A tensor with the same values in new memory (tf.clone() shares the memory). */
export function copyTensor(tensor: tf.Tensor): tf.Tensor {
  return makeTensor(readTensor(tensor).slice(), tensor.shape, tensor.dtype);
}

/** On cpu a float32 tensor may hold an Int32Array (tf.oneHot(…).toFloat()): what counts is the tensor's dtype. */
function typed(values: unknown, dtype: tf.DataType): TypedArray {
  if (isOfType(values, dtype)) return values;
  const list = values as ArrayLike<number>;
  if (dtype === 'float32') return Float32Array.from(list);
  return dtype === 'int32' ? Int32Array.from(list) : Uint8Array.from(list);
}

function isOfType(values: unknown, dtype: tf.DataType): values is TypedArray {
  if (dtype === 'float32') return values instanceof Float32Array;
  if (dtype === 'int32') return values instanceof Int32Array;
  return values instanceof Uint8Array;
}
