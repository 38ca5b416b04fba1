// arrays(): a dataset of `horovod/data` whose batches are jax-js arrays.

import * as jax from '@jax-js/jax';
import { Dataset } from '../../data/dataset.ts';
import { HorovodError } from '../../errors.ts';
import { invalid } from '../../operations/check-options.ts';
import { widen } from '../../tensor/half-float.ts';
import { describe, type Tensor } from '../../tensor/tensor.ts';

/** What arrays() makes of a value: tensors become arrays, everything else stays. */
export type ArraysOf<T> = T extends Tensor
  ? jax.Array
  : T extends object
    ? { [K in keyof T]: ArraysOf<T[K]> }
    : T;

/** The batches of a dataset with jax-js arrays instead of tensors. They belong to whoever takes them. */
export async function* arrays<T>(dataset: Dataset<T>): AsyncGenerator<ArraysOf<T>, void, undefined> {
  if (!(dataset instanceof Dataset)) {
    throw invalid('arrays()', `expected a dataset of horovod/data, not ${describe(dataset)}`);
  }
  for await (const batch of dataset) {
    const made: jax.Array[] = [];
    let converted: unknown;
    try {
      converted = convert(batch, '', made);
    } catch (error) {
      for (const array of made) array.dispose();
      throw error;
    }
    yield converted as ArraysOf<T>;
  }
}

function convert(value: unknown, name: string, made: jax.Array[]): unknown {
  if (isCoreTensor(value)) {
    const array = jax.numpy.array(valuesOf(value, name) as never).reshape([...value.shape]);
    made.push(array);
    return array;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value) || ArrayBuffer.isView(value)) {
    return value;
  }
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, convert(each, key, made)]));
}

/** jax-js has float32, int32 and bool arrays on every device. */
function valuesOf({ data, dtype }: Tensor, name: string): Float32Array | Int32Array {
  switch (dtype) {
    case 'float32':
      return data as Float32Array;
    case 'float64':
      return new Float32Array(data as Float64Array);
    case 'float16':
    case 'bfloat16': {
      const wide = new Float32Array(data.length);
      widen(dtype, data as Uint16Array, wide);
      return wide;
    }
    case 'int32':
      return data as Int32Array;
    case 'int64':
      return Int32Array.from(data as BigInt64Array, (value) => {
        if (BigInt.asIntN(32, value) === value) return Number(value);
        throw new HorovodError(
          'ERR_HVD_INVALID_DTYPE',
          `arrays(): column "${name}" has the int64 value ${value}, which is no int32; jax-js has no larger integers.`,
        );
      });
    default:
      return new Int32Array(data as Uint8Array);
  }
}

function isCoreTensor(value: unknown): value is Tensor {
  const { data, shape, dtype } = Object(value) as Partial<Tensor>;
  return ArrayBuffer.isView(data) && Array.isArray(shape) && typeof dtype === 'string';
}
