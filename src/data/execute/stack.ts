// Batches: values of several elements, put together along a new first dimension. Tensors and numbers become tensors; byte
// strings and texts become lists. Memory comes from `allocate`, which in threads is shared.

import { HorovodError } from '../../errors.ts';
import { type DType, dtypes, type TypedArray, type TypedArrayConstructor } from '../../tensor/dtype.ts';
import { elementsIn, naturalDtype, type Tensor } from '../../tensor/tensor.ts';

/** Memory for the values of a tensor. */
export type Allocate = (bytes: number) => ArrayBufferLike;

/** Not cleared: everything in a batch is written. */
export const allocatePlain = (bytes: number): ArrayBuffer =>
  Buffer.allocUnsafeSlow(bytes).buffer as ArrayBuffer;

export interface StackOptions {
  readonly allocate: Allocate;
  /** Pad values to the longest of each dimension; with these values by column. */
  readonly padding?: Readonly<Record<string, number>> | undefined;
}

/** A batch of elements, which are all of one kind: records of values, or values. */
export function stackElements(elements: readonly unknown[], options: StackOptions): unknown {
  const first = elements[0];
  if (!isRecord(first)) return stackValues(elements, '', options);
  const batch: Record<string, unknown> = {};
  const names = Object.keys(first);
  for (const name of names) {
    const column = elements.map((element) => (element as Record<string, unknown>)[name]);
    batch[name] = stackValues(column, name, options);
  }
  for (const element of elements) {
    const found = isRecord(element) ? Object.keys(element) : undefined;
    if (found !== undefined && found.length === names.length) continue;
    throw cannotStack(
      `the elements of a batch have different columns: ${names.join(', ')} and ${found?.join(', ') ?? describeValue(element)}`,
    );
  }
  return batch;
}

export function arrayFor(dtype: DType, elements: number, allocate: Allocate): TypedArray {
  const { bytes, arrays } = dtypes[dtype];
  return new (arrays[0] as TypedArrayConstructor)(allocate(elements * bytes), 0, elements);
}

/** A record of values, as opposed to a single value. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    !ArrayBuffer.isView(value) &&
    !Array.isArray(value) &&
    !isTensor(value)
  );
}

export function isTensor(value: unknown): value is Tensor {
  const { data, shape, dtype } = Object(value) as Partial<Tensor>;
  return ArrayBuffer.isView(data) && Array.isArray(shape) && typeof dtype === 'string';
}

function stackValues(values: readonly unknown[], name: string, options: StackOptions): unknown {
  const [first] = values;
  if (typeof first === 'number' || typeof first === 'boolean') return stackNumbers(values, name, options);
  if (isTensor(first)) return stackTensors(values, name, options);
  // Byte strings are Uint8Arrays; numbers in typed arrays of other kinds are tensors of one dimension.
  if (ArrayBuffer.isView(first) && !(first instanceof Uint8Array)) {
    return stackTensors(values.map(asTensor), name, options);
  }
  return [...values];
}

function stackNumbers(values: readonly unknown[], name: string, { allocate }: StackOptions): Tensor {
  const kind = typeof values[0];
  const wrong = values.find((value) => typeof value !== kind);
  if (wrong !== undefined) throw cannotStack(`${column(name)}: a ${kind} and ${describeValue(wrong)}`);
  const dtype = kind === 'boolean' ? 'bool' : 'float64';
  const data = arrayFor(dtype, values.length, allocate);
  for (const [row, value] of values.entries()) (data as Float64Array)[row] = Number(value);
  return { data, shape: [values.length], dtype };
}

function stackTensors(values: readonly unknown[], name: string, options: StackOptions): Tensor {
  const { allocate, padding } = options;
  const first = values[0] as Tensor;
  const shape = [...first.shape];
  let isEven = true;
  for (const value of values) {
    const next = isTensor(value) ? value : undefined;
    if (next === undefined || next.dtype !== first.dtype || next.shape.length !== shape.length) {
      throw cannotStack(`${column(name)}: ${describeValue(first)} and ${describeValue(value)}`);
    }
    for (const [axis, length] of next.shape.entries()) {
      if (length === shape[axis]) continue;
      isEven = false;
      if (padding === undefined) {
        throw cannotStack(
          `${column(name)}: ${describeValue(first)} and ${describeValue(value)}. Use paddedBatch() for values of different lengths`,
        );
      }
      shape[axis] = Math.max(length, shape[axis] as number);
    }
  }
  const elements = elementsIn(shape);
  const data = arrayFor(first.dtype, values.length * elements, allocate);
  const batch: Tensor = { data, shape: [values.length, ...shape], dtype: first.dtype };
  if (isEven) {
    for (const [row, value] of values.entries()) data.set((value as Tensor).data as never, row * elements);
    return batch;
  }
  const filler = padding?.[name] ?? 0;
  if (first.dtype === 'int64') (data as BigInt64Array).fill(BigInt(filler));
  else (data as Float64Array).fill(filler);
  for (const [row, value] of values.entries()) {
    copyPadded(value as Tensor, data, row * elements, shape);
  }
  return batch;
}

/** Copies run by run of the last dimension. */
function copyPadded(value: Tensor, target: TypedArray, start: number, shape: readonly number[]): void {
  const run = value.shape.at(-1) ?? 1;
  if (value.data.length === 0) return;
  const index = value.shape.slice(0, -1).map(() => 0);
  for (let from = 0; from < value.data.length; from += run) {
    let place = 0;
    for (const [axis, each] of index.entries()) place = (place + each) * (shape[axis + 1] as number);
    target.set(value.data.subarray(from, from + run) as never, start + place);
    for (let axis = index.length - 1; axis >= 0; axis -= 1) {
      index[axis] = (index[axis] as number) + 1;
      if ((index[axis] as number) < (value.shape[axis] as number)) break;
      index[axis] = 0;
    }
  }
}

function asTensor(value: unknown): unknown {
  const dtype = naturalDtype(value);
  return dtype === undefined ? value : { data: value, shape: [(value as TypedArray).length], dtype };
}

function describeValue(value: unknown): string {
  if (isTensor(value)) return `a tensor of ${value.dtype} [${value.shape.join(', ')}]`;
  if (ArrayBuffer.isView(value)) return `a ${value.constructor.name}`;
  return value === null ? 'null' : Array.isArray(value) ? 'a list' : typeof value;
}

function column(name: string): string {
  return name === '' ? 'the elements' : `column "${name}"`;
}

function cannotStack(reason: string): HorovodError {
  return new HorovodError('ERR_HVD_INVALID_ARGUMENT', `batch(): values cannot be put together: ${reason}.`);
}
