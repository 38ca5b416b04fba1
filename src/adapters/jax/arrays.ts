// The values of jax-js arrays as tensors of the core, and back. jax-js counts references and *moves* arrays: a function that is
// given an array owns that reference, and reading the data uses it up. So do the functions here that read.

import * as jax from '@jax-js/jax';
import { HorovodError } from '../../errors.ts';
import type { DType, TypedArray } from '../../tensor/dtype.ts';
import { elementsIn, type Tensor } from '../../tensor/tensor.ts';

type DataArray = Awaited<ReturnType<jax.Array['data']>>;
type HalfArrayConstructor = new (buffer: ArrayBufferLike) => DataArray;

/** What is needed to make an array like one that has been used up. */
export interface ArrayKind {
  readonly dtype: jax.DType;
  readonly device: jax.Device;
}

/** An array with values, of any copy of jax-js; not a placeholder while a function is traced. */
export function isArray(value: unknown): value is jax.Array {
  return isTracer(value) && 'dataSync' in value;
}

/** An array, or a placeholder for one inside jit(), grad() or vmap(). */
export function isTracer(value: unknown): value is jax.Array {
  return typeof value === 'object' && value !== null && 'aval' in value && 'dispose' in value;
}

export function kindOf(array: jax.Array): ArrayKind {
  return { dtype: array.dtype, device: array.device };
}

/** The core's dtype for what an array holds; uint32 travels as the int32 of the same bits. */
export function coreDtype(dtype: jax.DType): DType {
  return dtype === jax.DType.Uint32 ? 'int32' : dtype;
}

/** `what` is named in the error: 'allreduce: "dense/kernel"'. */
export function checkMovable(dtype: jax.DType, elements: number, what: string): void {
  const needsHalf = dtype === jax.DType.Float16 || (dtype === jax.DType.Float64 && elements > 1);
  if (!needsHalf || halfArray() !== undefined) return;
  // jax-js tests `data instanceof Float16Array` for float64 too, and old versions of Node have no such class.
  throw new HorovodError(
    'ERR_HVD_INVALID_DTYPE',
    `${what} is ${dtype}, which jax-js can make from data only if there is a Float16Array (Node 24): ` +
      'use float32 (x.astype(np.float32)).',
  );
}

/** Uses up one reference to the array. The memory is the caller's. */
export function readArraySync(array: jax.Array): Tensor {
  const { dtype, shape } = array;
  return tensorOf(array.dataSync(), dtype, shape);
}

/** The form for devices that cannot be read synchronously; uses up one reference to the array. */
export async function readArray(array: jax.Array): Promise<Tensor> {
  const { dtype, shape } = array;
  return tensorOf(await array.data(), dtype, shape);
}

/** A new array with one reference, the caller's. */
export function makeArray({ dtype, device }: ArrayKind, tensor: Tensor): jax.Array {
  // An array made with a device is bound to it; those on the default device are not, and should stay so.
  const place = device === jax.defaultDevice() ? {} : { device };
  const shape = [...tensor.shape];
  if (elementsIn(shape) === 0) return jax.numpy.zeros(shape, { dtype, ...place });
  if (dtype === jax.DType.Float64 && elementsIn(shape) === 1)
    return jax.numpy.full(shape, tensor.data[0] as number, { dtype, ...place });
  return jax.numpy.array(dataOf(tensor.data, dtype), { shape, dtype, ...place });
}

function tensorOf(data: DataArray, dtype: jax.DType, shape: readonly number[]): Tensor {
  const { buffer, byteOffset, length } = data;
  const view = (): TypedArray => {
    if (dtype === jax.DType.Bool) return Uint8Array.from(data);
    if (dtype === jax.DType.Uint32) return new Int32Array(buffer, byteOffset, length);
    if (dtype === jax.DType.Float16) return new Uint16Array(buffer, byteOffset, length);
    return data as TypedArray;
  };
  return { data: view(), shape, dtype: coreDtype(dtype) };
}

function dataOf(data: TypedArray, dtype: jax.DType): DataArray {
  if (dtype === jax.DType.Bool) return new Int32Array(data as Uint8Array);
  if (dtype === jax.DType.Uint32)
    return new Uint32Array(data.buffer as ArrayBuffer, data.byteOffset, data.length);
  if (dtype === jax.DType.Float16) {
    const bits = (data as Uint16Array).slice();
    return new (halfArray() as HalfArrayConstructor)(bits.buffer);
  }
  return data as DataArray;
}

function halfArray(): HalfArrayConstructor | undefined {
  return (globalThis as { Float16Array?: HalfArrayConstructor }).Float16Array;
}
