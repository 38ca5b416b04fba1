// Batches of the core as tensors of TensorFlow.js, which has fewer dtypes: integers become int32, floats float32, byte strings and
// texts string tensors. wasm gets them in its heap, with one copy. The values of a batch belong to nobody else, so a backend that keeps
// the array (cpu, tfjs-node) may.

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../../errors.ts';
import type { TypedArray } from '../../../tensor/dtype.ts';
import { widen } from '../../../tensor/half-float.ts';
import type { Tensor } from '../../../tensor/tensor.ts';
import { blankTensor, liveView, makeTensor } from '../tensor-access.ts';

/** What tensors() makes of a value. */
export type Materialised<T> = T extends Tensor | readonly string[] | readonly Uint8Array[]
  ? tf.Tensor
  : T extends object
    ? { [K in keyof T]: Materialised<T[K]> }
    : T;

/** The same structure with tf tensors. If a value cannot be one, nothing is left of the others. */
export function materialise(value: unknown): tf.TensorContainer {
  const made: tf.Tensor[] = [];
  const convert = (each: unknown, name: string): tf.TensorContainer => {
    const tensor = tensorOf(each, name);
    if (tensor !== undefined) {
      made.push(tensor);
      return tensor;
    }
    if (typeof each === 'number' || typeof each === 'string' || typeof each === 'boolean') return each;
    if (isPlainObject(each)) {
      return Object.fromEntries(Object.entries(each).map(([key, inner]) => [key, convert(inner, key)]));
    }
    throw cannotBeTensor(name, each);
  };
  try {
    return convert(value, '');
  } catch (error) {
    tf.dispose(made);
    throw error;
  }
}

/**
 * The columns of a batch whose values materialise() has copied: into the heap of wasm, or into arrays of their own. Other backends
 * may keep the arrays of the others.
 */
export function copiedColumns(batch: unknown): Record<string, unknown> {
  if (!isPlainObject(batch)) return {};
  const isHeap = tf.getBackend() === 'wasm';
  return Object.fromEntries(
    Object.entries(batch).filter(
      ([, each]) => isCoreTensor(each) && (isHeap || !keptAsTheyAre.has(each.dtype)),
    ),
  );
}

const keptAsTheyAre: ReadonlySet<string> = new Set(['float32', 'int32', 'bool']);

function tensorOf(value: unknown, name: string): tf.Tensor | undefined {
  if (isCoreTensor(value)) return fromCore(value, name);
  if (ArrayBuffer.isView(value) && !(value instanceof DataView) && !(value instanceof Uint8Array)) {
    return tf.tensor(value as Float32Array);
  }
  if (Array.isArray(value) && value.every((each) => typeof each === 'string' || each instanceof Uint8Array)) {
    return tf.tensor1d(value as string[], 'string');
  }
  return undefined;
}

function fromCore({ data, shape, dtype }: Tensor, name: string): tf.Tensor {
  switch (dtype) {
    case 'float32':
    case 'float64':
      return filled(data, shape, 'float32', Float32Array);
    case 'bool':
      return filled(data, shape, 'bool', Uint8Array);
    case 'float16':
    case 'bfloat16': {
      const wide = new Float32Array(data.length);
      widen(dtype, data as Uint16Array, wide);
      return filled(wide, shape, 'float32', Float32Array);
    }
    case 'int64':
      return filled(narrowIntegers(data as BigInt64Array, name), shape, 'int32', Int32Array);
    default:
      return filled(data, shape, 'int32', Int32Array);
  }
}

/** Converted straight into the heap of wasm; on other backends into an array, unless it is one of this kind. */
function filled(
  data: TypedArray,
  shape: readonly number[],
  dtype: 'float32' | 'int32' | 'bool',
  Kind: Float32ArrayConstructor | Int32ArrayConstructor | Uint8ArrayConstructor,
): tf.Tensor {
  const blank = blankTensor([...shape], dtype);
  if (blank === undefined) {
    // new Kind(data), not Kind.from(data): that goes through a list of numbers, which takes much longer.
    return makeTensor(data instanceof Kind ? data : new Kind(data as Uint8Array), shape, dtype);
  }
  (liveView(blank) as Float32Array).set(data as Uint8Array);
  return blank;
}

function narrowIntegers(data: BigInt64Array, name: string): Int32Array {
  return Int32Array.from(data, (value) => {
    const narrow = Number(BigInt.asIntN(32, value));
    if (BigInt(narrow) === value) return narrow;
    throw new HorovodError(
      'ERR_HVD_INVALID_DTYPE',
      `tensors(): column "${name}" has the int64 value ${value}, which is no int32; TensorFlow.js has no larger integers.`,
    );
  });
}

function isCoreTensor(value: unknown): value is Tensor {
  const { data, shape, dtype } = Object(value) as Partial<Tensor>;
  return ArrayBuffer.isView(data) && Array.isArray(shape) && typeof dtype === 'string';
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !ArrayBuffer.isView(value) && !Array.isArray(value);
}

function cannotBeTensor(name: string, value: unknown): HorovodError {
  const what = name === '' ? 'an element' : `column "${name}"`;
  const kind =
    value === null ? 'null' : Array.isArray(value) ? 'a list of values of different sizes' : typeof value;
  return new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `tensors(): ${what} is ${kind}, which cannot be a tensor. Batches of one shape come from batch() or paddedBatch().`,
  );
}
