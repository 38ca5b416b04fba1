// Element types: their names, codes (shared with the native addon), sizes and typed arrays.

export type DType =
  | 'uint8'
  | 'int8'
  | 'uint16'
  | 'int16'
  | 'int32'
  | 'int64'
  | 'float16'
  | 'float32'
  | 'float64'
  | 'bool'
  | 'bfloat16';

export type TypedArray =
  | Uint8Array
  | Int8Array
  | Uint8ClampedArray
  | Uint16Array
  | Int16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  | Float32Array
  | Float64Array;

interface DTypeInfo {
  /** Horovod's DataType enum, with bfloat16 added; the native addon uses the same numbers. */
  readonly code: number;
  readonly bytes: number;
  /** Typed arrays that may hold it; the first is what we allocate. */
  readonly arrays: readonly TypedArrayConstructor[];
}

export interface TypedArrayConstructor {
  new (length: number): TypedArray;
  new (buffer: ArrayBufferLike, byteOffset?: number, length?: number): TypedArray;
  readonly BYTES_PER_ELEMENT: number;
  readonly name: string;
}

const arrays = (...list: unknown[]): readonly TypedArrayConstructor[] => list as TypedArrayConstructor[];

export const dtypes: Readonly<Record<DType, DTypeInfo>> = {
  uint8: { code: 0, bytes: 1, arrays: arrays(Uint8Array, Uint8ClampedArray) },
  int8: { code: 1, bytes: 1, arrays: arrays(Int8Array) },
  uint16: { code: 2, bytes: 2, arrays: arrays(Uint16Array) },
  int16: { code: 3, bytes: 2, arrays: arrays(Int16Array) },
  int32: { code: 4, bytes: 4, arrays: arrays(Int32Array) },
  int64: { code: 5, bytes: 8, arrays: arrays(BigInt64Array) },
  float16: { code: 6, bytes: 2, arrays: arrays(Uint16Array) },
  float32: { code: 7, bytes: 4, arrays: arrays(Float32Array) },
  float64: { code: 8, bytes: 8, arrays: arrays(Float64Array) },
  bool: { code: 9, bytes: 1, arrays: arrays(Uint8Array) },
  bfloat16: { code: 10, bytes: 2, arrays: arrays(Uint16Array) },
};

export const dtypeNames: readonly DType[] = (Object.keys(dtypes) as DType[]).sort(
  (a, b) => dtypes[a].code - dtypes[b].code,
);
