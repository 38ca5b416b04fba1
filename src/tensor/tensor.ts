// Tensors as users pass them: a bare typed array (a rank-1 tensor of its natural dtype) or an object of data,
// shape and dtype. Results have the same form as the input.

import { HorovodError } from '../errors.ts';
import { type DType, dtypes, type TypedArray, type TypedArrayConstructor } from './dtype.ts';

export interface Tensor<A extends TypedArray = TypedArray> {
  readonly data: A;
  readonly shape: readonly number[];
  readonly dtype: DType;
}

/** A bare typed array is a rank-1 tensor. */
export type TensorLike = TypedArray | Tensor;

const naturalDtypes: readonly (readonly [TypedArrayConstructor, DType])[] = [
  [Float32Array, 'float32'],
  [Float64Array, 'float64'],
  [Int32Array, 'int32'],
  [Uint8Array, 'uint8'],
  [Int8Array, 'int8'],
  [Uint8ClampedArray, 'uint8'],
  [Uint16Array, 'uint16'],
  [Int16Array, 'int16'],
  [BigInt64Array, 'int64'],
] as unknown as readonly (readonly [TypedArrayConstructor, DType])[];

/** The dtype of a bare typed array, or undefined if there is none (Uint32Array, DataView …). */
export function naturalDtype(data: unknown): DType | undefined {
  if (data instanceof Float32Array) return 'float32';
  return naturalDtypes.find(([kind]) => data instanceof kind)?.[1];
}

/**
 * A tensor over the given memory (no copy); plain numbers are copied into the dtype's typed array.
 * float16 and bfloat16 live in a Uint16Array: `tensor(bits, [2, 3], 'bfloat16')`.
 */
export function tensor<A extends TypedArray>(data: A, shape?: readonly number[], dtype?: DType): Tensor<A>;
export function tensor(data: readonly number[], shape?: readonly number[], dtype?: DType): Tensor;
export function tensor(
  data: TypedArray | readonly number[],
  shape?: readonly number[],
  dtype?: DType,
): Tensor {
  if (Array.isArray(data))
    return tensor(copyNumbers(data as readonly number[], dtype ?? 'float32'), shape, dtype);
  if (!ArrayBuffer.isView(data)) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `tensor() takes a typed array or a list of numbers, not ${describe(data)}.`,
    );
  }
  const made = {
    data: data as TypedArray,
    shape: shape ?? [data.length],
    dtype: dtype ?? dtypeOf(data, 'tensor()'),
  };
  checkTensor(made, 'tensor()');
  return made;
}

/** A user's tensor, in the one form that the collectives work with. */
export interface Operand {
  readonly data: TypedArray;
  readonly shape: readonly number[];
  readonly dtype: DType;
  readonly isBare: boolean;
}

/** Checks a user's tensor; `what` is named in errors: 'allreduce "x"'. */
export function operandOf(x: TensorLike, what: string): Operand {
  if (ArrayBuffer.isView(x)) {
    const data = x as TypedArray;
    const dtype = dtypeOf(data, what);
    if (data.length === 0) checkAttached(data, what);
    return { data, shape: [data.length], dtype, isBare: true };
  }
  if (typeof x !== 'object' || x === null || !('data' in x) || !('shape' in x) || !('dtype' in x)) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what} takes a typed array or a tensor { data, shape, dtype }, not ${describe(x)}.`,
    );
  }
  checkTensor(x, what);
  return { data: x.data, shape: x.shape, dtype: x.dtype, isBare: false };
}

/** A result in the same form as the operand. */
export function likeOperand(operand: Operand, data: TypedArray, shape: readonly number[]): TensorLike {
  return operand.isBare ? data : { data, shape, dtype: operand.dtype };
}

/** New memory of the same array type. */
export function emptyLike(data: TypedArray, length: number): TypedArray {
  // The constructor of Buffer is deprecated.
  if (data.constructor === Buffer) return Buffer.alloc(length);
  return new (data.constructor as TypedArrayConstructor)(length);
}

/** The same bytes as an array of the operand's type. */
export function viewLike(data: TypedArray, bytes: Uint8Array): TypedArray {
  if (data.constructor === Buffer) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const kind = data.constructor as TypedArrayConstructor;
  return new kind(bytes.buffer, bytes.byteOffset, bytes.byteLength / kind.BYTES_PER_ELEMENT);
}

export function bytesOf(data: TypedArray): Uint8Array {
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

export function elementsIn(shape: readonly number[]): number {
  return shape.reduce((product, length) => product * length, 1);
}

export function isShape(shape: unknown): shape is readonly number[] {
  return Array.isArray(shape) && shape.every((length) => Number.isSafeInteger(length) && length >= 0);
}

export function checkShape(shape: readonly number[], what: string): void {
  if (!isShape(shape)) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what}: a shape is a list of whole numbers from 0, not ${describe(shape)}.`,
    );
  }
}

function checkTensor(x: Tensor, what: string): void {
  const info = Object.hasOwn(dtypes, x.dtype) ? dtypes[x.dtype] : undefined;
  if (info === undefined) throw unknownDtype(x.dtype, what);
  if (!info.arrays.some((kind) => x.data instanceof (kind as never))) {
    throw new HorovodError(
      'ERR_HVD_INVALID_DTYPE',
      `${what}: dtype ${x.dtype} lives in a ${info.arrays[0]?.name}, not in ${describe(x.data)}.`,
    );
  }
  checkShape(x.shape, what);
  const wanted = elementsIn(x.shape);
  if (x.data.length === wanted && wanted !== 0) return;
  if (x.data.length === 0) checkAttached(x.data, what);
  if (x.data.length !== wanted) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what}: shape [${x.shape.join(', ')}] has ${wanted} elements, the array has ${x.data.length}.`,
    );
  }
}

function unknownDtype(dtype: unknown, what: string): HorovodError {
  return new HorovodError(
    'ERR_HVD_INVALID_DTYPE',
    `${what}: there is no dtype ${describe(dtype)}; there are ${Object.keys(dtypes).join(', ')}.`,
  );
}

function checkAttached(data: TypedArray, what: string): void {
  try {
    new Uint8Array(data.buffer); // on Node 20 only this distinguishes a detached buffer from an empty one
  } catch {
    throw new HorovodError(
      'ERR_HVD_DETACHED',
      `${what}: the array's buffer is detached (it was transferred, or its WebAssembly memory grew). ` +
        'Make a new view of the memory.',
    );
  }
}

function dtypeOf(data: TypedArray | readonly number[], what: string): DType {
  const dtype = naturalDtype(data);
  if (dtype !== undefined) return dtype;
  throw new HorovodError(
    'ERR_HVD_INVALID_DTYPE',
    `${what}: there is no dtype for ${describe(data)}. Use one of ` +
      `${naturalDtypes.map(([kind]) => kind.name).join(', ')}, or tensor(data, shape, dtype).`,
  );
}

function copyNumbers(numbers: readonly number[], dtype: DType): TypedArray {
  if (!Object.hasOwn(dtypes, dtype)) throw unknownDtype(dtype, 'tensor()');
  if (dtype === 'int64') {
    const wrong = numbers.find((value) => !Number.isInteger(value));
    if (wrong === undefined) return BigInt64Array.from(numbers, (value) => BigInt(value));
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `tensor(): int64 takes whole numbers, not ${describe(wrong)}.`,
    );
  }
  if (dtype === 'float16' || dtype === 'bfloat16') {
    throw new HorovodError(
      'ERR_HVD_INVALID_DTYPE',
      `tensor(): ${dtype} takes a Uint16Array of bit patterns, not numbers.`,
    );
  }
  const array = new (dtypes[dtype].arrays[0] as TypedArrayConstructor)(numbers.length);
  (array as Float64Array).set(numbers);
  return array;
}

export function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (ArrayBuffer.isView(value)) return `a ${value.constructor.name}`;
  if (Array.isArray(value))
    return `[${value.slice(0, 8).map(String).join(', ')}${value.length > 8 ? ', …' : ''}]`;
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'object') return `an object of ${(value as object).constructor?.name ?? 'no class'}`;
  return String(value);
}
