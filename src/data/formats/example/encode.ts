// Examples and SequenceExamples as bytes. The type of each feature follows from the type of its value alone, never from the
// numbers in it, so that all records of a data set have the same types: plain numbers are int64, floats come in a typed array.

import { HorovodError } from '../../../errors.ts';
import type { TypedArray } from '../../../tensor/dtype.ts';
import { bytesOf, describe, type Tensor } from '../../../tensor/tensor.ts';

/**
 * What becomes a feature. Byte strings: a string, a Uint8Array, lists of them, or a tensor of uint8 (its raw bytes, as for
 * images). float: Float32Array, Float64Array and tensors of them. int64: whole numbers, bigints, booleans, lists of them, and
 * all other typed arrays and tensors.
 */
export type ExampleInput =
  | string
  | Uint8Array
  | readonly string[]
  | readonly Uint8Array[]
  | number
  | bigint
  | boolean
  | readonly (number | bigint | boolean)[]
  | TypedArray
  | Tensor;

export type ExampleInputs = Readonly<Record<string, ExampleInput>>;

export interface SequenceExampleInputs {
  readonly context?: ExampleInputs;
  /** For each feature list its features, one per step. */
  readonly sequence?: Readonly<Record<string, readonly ExampleInput[]>>;
}

/** A serialized tf.train.Example. */
export function encodeExample(values: ExampleInputs): Uint8Array {
  const features = featuresOf(values, 'encodeExample()');
  const size = features.reduce((sum, { size }) => sum + fieldSize(size), 0);
  const writer = new WireWriter(fieldSize(size));
  writer.header(1, size);
  for (const feature of features) feature.write(writer);
  return writer.bytes;
}

/** A serialized tf.train.SequenceExample. */
export function encodeSequenceExample({ context = {}, sequence = {} }: SequenceExampleInputs): Uint8Array {
  const what = 'encodeSequenceExample()';
  const features = featuresOf(context, what);
  const lists = Object.entries(sequence).map(([name, list]) => listEntry(name, list, what));
  const sizeOf = (parts: readonly Part[]) => parts.reduce((sum, { size }) => sum + fieldSize(size), 0);
  const [contextSize, listsSize] = [sizeOf(features), sizeOf(lists)];
  const writer = new WireWriter(
    (features.length > 0 ? fieldSize(contextSize) : 0) + (lists.length > 0 ? fieldSize(listsSize) : 0),
  );
  if (features.length > 0) writer.header(1, contextSize);
  for (const part of features) part.write(writer);
  if (lists.length > 0) writer.header(2, listsSize);
  for (const part of lists) part.write(writer);
  return writer.bytes;
}

/** Something whose size is known before it is written. write() adds its own header. */
interface Part {
  readonly size: number;
  write(writer: WireWriter): void;
}

class WireWriter {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  at = 0;

  constructor(size: number) {
    this.bytes = new Uint8Array(size);
    this.view = new DataView(this.bytes.buffer);
  }

  /** Of a length-prefixed field; all field numbers here are below 16. */
  header(field: number, size: number): void {
    this.bytes[this.at++] = field * 8 + 2;
    this.varint(size);
  }

  varint(value: number): void {
    let rest = value;
    for (; rest >= 128; rest = Math.floor(rest / 128)) this.bytes[this.at++] = (rest % 128) + 128;
    this.bytes[this.at++] = rest;
  }

  content(bytes: Uint8Array): void {
    this.bytes.set(bytes, this.at);
    this.at += bytes.length;
  }
}

function featuresOf(values: ExampleInputs, what: string): Part[] {
  if (typeof values !== 'object' || values === null || Array.isArray(values) || ArrayBuffer.isView(values)) {
    throw invalid(`${what} takes an object of values by name, not ${describe(values)}.`);
  }
  return Object.entries(values).map(([name, value]) => entry(name, 2, featureOf(value, `${what}: ${name}`)));
}

function listEntry(name: string, list: readonly ExampleInput[], what: string): Part {
  if (!Array.isArray(list))
    throw invalid(`${what}: ${name} is a list with a value for each step, not ${describe(list)}.`);
  const steps = list.map((value: ExampleInput) => featureOf(value, `${what}: ${name}`));
  return entry(name, 2, {
    size: steps.reduce((sum, { size }) => sum + fieldSize(size), 0),
    write(writer) {
      for (const step of steps) {
        writer.header(1, step.size);
        step.write(writer);
      }
    },
  });
}

/** An entry of a map, with its header. */
function entry(name: string, field: number, value: Part): Part {
  const key = Buffer.from(name);
  const size = fieldSize(key.length) + fieldSize(value.size);
  return {
    size,
    write(writer) {
      writer.header(1, size);
      writer.header(1, key.length);
      writer.content(key);
      writer.header(field, value.size);
      value.write(writer);
    },
  };
}

/** The content of a Feature message. */
function featureOf(value: ExampleInput, what: string): Part {
  if (typeof value === 'string') return bytesFeature([Buffer.from(value)]);
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean') {
    return integersFeature([integer(value, what)]);
  }
  if (Array.isArray(value)) return listFeature(value as readonly unknown[], what);
  if (ArrayBuffer.isView(value)) return arrayFeature(value as TypedArray, what);
  const { data, dtype } = (value ?? {}) as Partial<Tensor>;
  if (!ArrayBuffer.isView(data) || dtype === undefined) {
    throw invalid(`${what} is ${describe(value)}; expected a string, numbers, a typed array or a tensor.`);
  }
  if (dtype === 'float16' || dtype === 'bfloat16') {
    throw invalid(`${what} is a tensor of ${dtype}; convert it to float32 first.`);
  }
  // A tensor of uint8 is an image; one of bool is a list of 0 and 1.
  return dtype === 'bool' ? integersFeature(data as Uint8Array) : arrayFeature(data, what);
}

function listFeature(list: readonly unknown[], what: string): Part {
  const isBytes = (each: unknown) => typeof each === 'string' || each instanceof Uint8Array;
  if (list.length > 0 && list.every(isBytes)) {
    return bytesFeature(
      list.map((each) => (typeof each === 'string' ? Buffer.from(each) : (each as Uint8Array))),
    );
  }
  return integersFeature(list.map((each) => integer(each, what)));
}

function arrayFeature(array: TypedArray, what: string): Part {
  if (array instanceof Uint8Array || array instanceof Uint8ClampedArray)
    return bytesFeature([bytesOf(array)]);
  if (array instanceof Float32Array || array instanceof Float64Array) return floatsFeature(array);
  if ('getInt8' in array) throw invalid(`${what} is a DataView; use a typed array.`);
  return integersFeature(array);
}

function bytesFeature(list: readonly Uint8Array[]): Part {
  const size = list.reduce((sum, { length }) => sum + fieldSize(length), 0);
  return {
    size: fieldSize(size),
    write(writer) {
      writer.header(1, size);
      for (const each of list) {
        writer.header(1, each.length);
        writer.content(each);
      }
    },
  };
}

function floatsFeature(list: Float32Array | Float64Array): Part {
  const size = list.length === 0 ? 0 : fieldSize(4 * list.length);
  return {
    size: fieldSize(size),
    write(writer) {
      writer.header(2, size);
      if (list.length === 0) return;
      writer.header(1, 4 * list.length);
      if (list instanceof Float32Array) return writer.content(bytesOf(list));
      for (const value of list) {
        writer.view.setFloat32(writer.at, value, true);
        writer.at += 4;
      }
    },
  };
}

function integersFeature(list: ArrayLike<number | bigint>): Part {
  let packed = 0;
  for (let i = 0; i < list.length; i++) packed += integerSize(list[i] as number | bigint);
  const size = list.length === 0 ? 0 : fieldSize(packed);
  return {
    size: fieldSize(size),
    write(writer) {
      writer.header(3, size);
      if (list.length === 0) return;
      writer.header(1, packed);
      for (let i = 0; i < list.length; i++) writeInteger(writer, list[i] as number | bigint);
    },
  };
}

function integer(value: unknown, what: string): number | bigint {
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (typeof value === 'bigint') {
    if (BigInt.asIntN(64, value) === value) return value;
    throw invalid(`${what}: ${value} does not fit into 64 bits.`);
  }
  if (Number.isSafeInteger(value)) return value as number;
  if (typeof value !== 'number')
    throw invalid(
      `${what} is a list with ${describe(value)} in it; it can hold strings, byte strings or whole numbers.`,
    );
  throw invalid(
    `${what}: ${value} is not a whole number. Plain numbers are stored as int64; for floats use a Float32Array.`,
  );
}

function integerSize(value: number | bigint): number {
  if (value < 0) return 10;
  if (typeof value === 'number') return varintSize(value);
  let size = 1;
  for (let rest = BigInt.asUintN(64, value); rest >= 128n; rest >>= 7n) size++;
  return size;
}

function writeInteger(writer: WireWriter, value: number | bigint): void {
  if (typeof value === 'number' && value >= 0) {
    writer.varint(value);
    return;
  }
  let rest = BigInt.asUintN(64, BigInt(value));
  for (; rest >= 128n; rest >>= 7n) writer.bytes[writer.at++] = Number(rest & 127n) | 128;
  writer.bytes[writer.at++] = Number(rest);
}

/** Bytes of a length-prefixed field with this content. */
function fieldSize(size: number): number {
  return 1 + varintSize(size) + size;
}

function varintSize(value: number): number {
  let size = 1;
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) size++;
  return size;
}

function invalid(text: string): HorovodError {
  return new HorovodError('ERR_HVD_INVALID_ARGUMENT', text);
}
