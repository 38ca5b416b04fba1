// Examples as the pipeline reads them: features that were asked for, straight from the record into rows of a batch, or as the
// tensors of one element.
//
//   Example { Features features = 1 }     Features { map<string, Feature> feature = 1 }

import { HorovodError } from '../../../errors.ts';
import { type DType, dtypes, type TypedArray } from '../../../tensor/dtype.ts';
import { elementsIn } from '../../../tensor/tensor.ts';
import type { BatchColumns, ColumnLayout, Decoder, ElementRecord, ElementValue } from '../format.ts';
import { FeatureTable } from './feature-table.ts';
import { copyNumbers, copyRaw, type ListShape, measure, readStrings, ValueTarget } from './feature-values.ts';
import type { Feature, Features, FixedLenFeature } from './features.ts';
import { WireReader, wire } from './wire-reader.ts';

/** Field 1, length-prefixed: features of an Example, context of a SequenceExample. */
const firstMessage = 8 + wire.lengthPrefixed;

export function exampleDecoder(features: Features): ExampleDecoder {
  return new ExampleDecoder(features);
}

export class ExampleDecoder implements Decoder {
  readonly columns: readonly ColumnLayout[] | null;
  readonly #features: readonly Feature[];
  readonly #table: FeatureTable;
  readonly #reader = new WireReader();
  readonly #shape: ListShape = { kind: undefined, count: 0, bytes: 0 };
  readonly #targets: (ValueTarget | undefined)[];
  readonly #defaults: readonly (TypedArray | undefined)[];

  constructor(features: Features) {
    const entries = Object.entries(features);
    this.#features = entries.map(([, feature]) => feature);
    this.#table = new FeatureTable(entries.map(([name]) => name));
    this.#targets = entries.map(() => undefined);
    this.#defaults = this.#features.map(defaultValues);
    const isFixed = this.#features.every(({ kind, dtype }) => kind === 'fixed' && dtype !== 'string');
    this.columns = isFixed
      ? entries.map(([name, feature]) => columnOf(name, feature as FixedLenFeature))
      : null;
  }

  fill(bytes: Uint8Array, start: number, length: number, row: number, target: BatchColumns): void {
    const { columns } = this;
    if (columns === null) throw notFixed(this.#table.names, this.#features);
    this.#locate(bytes, start, length);
    for (let i = 0; i < columns.length; i++) {
      const { elements, dtype } = columns[i] as ColumnLayout;
      const array = target[i] as TypedArray;
      let views = this.#targets[i];
      if (views === undefined || views.array !== array) {
        views = new ValueTarget(array, dtype);
        this.#targets[i] = views;
      }
      this.#fillFixed(i, views, row * elements, elements);
    }
  }

  element(bytes: Uint8Array, start = 0, length: number = bytes.length - start): ElementRecord {
    this.#locate(bytes, start, length);
    const element: Record<string, ElementValue> = {};
    for (let i = 0; i < this.#features.length; i++)
      element[this.#table.names[i] as string] = this.#valueOf(i);
    return element;
  }

  #locate(bytes: Uint8Array, start: number, length: number): void {
    const reader = this.#reader;
    reader.use(bytes);
    reader.at = start;
    this.#table.clear();
    const end = start + length;
    let place = 0;
    while (reader.at < end) {
      const key = reader.key(end);
      if (key === firstMessage) place = this.#table.locate(reader, reader.endOfField(end), place);
      else reader.skip(key, end);
    }
  }

  /** One row of a fixed numeric feature. */
  #fillFixed(i: number, target: ValueTarget, first: number, elements: number): void {
    const start = this.#table.starts[i] as number;
    const end = this.#table.ends[i] as number;
    const reader = this.#reader;
    if (start >= 0) {
      reader.at = start;
      const count = copyNumbers(reader, end, target, first, elements);
      // An empty Feature counts as a missing one, as in TensorFlow.
      if (count === elements && (count > 0 || start < end)) return;
      if (count === -2 && this.#fillRaw(start, end, target, first, elements)) return;
      if (count !== 0) throw this.#mismatch(i, count, elements);
    }
    const values = this.#defaults[i];
    if (values === undefined) throw this.#missing(i);
    target.array.set(values as never, first);
  }

  #fillRaw(start: number, end: number, target: ValueTarget, first: number, elements: number): boolean {
    const reader = this.#reader;
    reader.at = start;
    measure(reader, end, this.#shape);
    const bytesPerElement = target.array.BYTES_PER_ELEMENT;
    if (this.#shape.kind !== 'bytes' || this.#shape.bytes !== elements * bytesPerElement) return false;
    reader.at = start;
    copyRaw(reader, end, target, first * bytesPerElement);
    return true;
  }

  #valueOf(i: number): ElementValue {
    const feature = this.#features[i] as Feature;
    if (feature.dtype === 'string') return this.#stringsOf(i, feature);
    if (feature.kind === 'fixed') {
      const elements = elementsIn(feature.shape);
      const data = newArray(feature.dtype, elements);
      this.#fillFixed(i, new ValueTarget(data, feature.dtype), 0, elements);
      return { data, shape: feature.shape, dtype: feature.dtype };
    }
    const start = this.#table.starts[i] as number;
    const data = start < 0 ? newArray(feature.dtype, 0) : this.#numbersOf(i, feature.dtype, start);
    const perEntry = feature.kind === 'sequence' ? elementsIn(feature.shape) : 1;
    if (perEntry === 0 ? data.length > 0 : data.length % perEntry !== 0)
      throw this.#mismatch(i, data.length, perEntry);
    const rest = feature.kind === 'sequence' ? feature.shape : [];
    return { data, shape: [perEntry === 0 ? 0 : data.length / perEntry, ...rest], dtype: feature.dtype };
  }

  #numbersOf(i: number, dtype: DType, start: number): TypedArray {
    const reader = this.#reader;
    const end = this.#table.ends[i] as number;
    reader.at = start;
    measure(reader, end, this.#shape);
    const { count } = this.#shape;
    const data = newArray(dtype, this.#shape.kind === 'bytes' ? 0 : count);
    reader.at = start;
    const copied = copyNumbers(reader, end, new ValueTarget(data, dtype), 0, data.length);
    if (copied !== data.length) throw this.#mismatch(i, copied, data.length);
    return data;
  }

  #stringsOf(i: number, feature: Feature): ElementValue {
    const start = this.#table.starts[i] as number;
    const end = this.#table.ends[i] as number;
    const reader = this.#reader;
    let strings: Uint8Array[] = [];
    if (start >= 0) {
      reader.at = start;
      measure(reader, end, this.#shape);
      const { kind } = this.#shape;
      if (kind !== undefined && kind !== 'bytes') throw this.#mismatch(i, -2, 0);
      reader.at = start;
      strings = readStrings(reader, end);
    }
    if (feature.kind !== 'fixed') return strings;
    const elements = elementsIn(feature.shape);
    if (strings.length === 0 && elements > 0) {
      if (typeof feature.default !== 'string') throw this.#missing(i);
      const text = new TextEncoder().encode(feature.default);
      strings = Array.from({ length: elements }, () => text.slice());
    }
    if (strings.length !== elements) throw this.#mismatch(i, strings.length, elements);
    return feature.shape.length === 0 ? (strings[0] as Uint8Array) : strings;
  }

  #missing(i: number): HorovodError {
    return new HorovodError(
      'ERR_HVD_DATA_FILE',
      `The Example has no feature ${JSON.stringify(this.#table.names[i])}, which has no default. ${this.#present()}`,
    );
  }

  #mismatch(i: number, count: number, expected: number): HorovodError {
    const name = JSON.stringify(this.#table.names[i]);
    const feature = this.#features[i] as Feature;
    const reader = this.#reader;
    reader.at = this.#table.starts[i] as number;
    measure(reader, this.#table.ends[i] as number, this.#shape);
    const { kind, count: values, bytes } = this.#shape;
    const held =
      kind === 'bytes' ? `${values} byte strings of ${bytes} bytes together` : `${values} ${kind} values`;
    if (count === -1) {
      return new HorovodError(
        'ERR_HVD_DATA_FILE',
        `Feature ${name} has an integer that does not fit into ${feature.dtype}. Read it as int64.`,
      );
    }
    const shape = feature.kind === 'variable' ? '' : ` with shape [${feature.shape.join(', ')}]`;
    const needs = feature.kind === 'fixed' && expected > 0 ? `, which needs ${expected} values` : '';
    return new HorovodError(
      'ERR_HVD_DATA_FILE',
      `Feature ${name} is asked for as ${feature.dtype}${shape}${needs}, but the Example has ${held}.`,
    );
  }

  /** The names in the record, for messages. */
  #present(): string {
    const found = this.#table.names.filter((_, i) => (this.#table.starts[i] as number) >= 0);
    return found.length === 0
      ? 'It has none of the features asked for: check their names, and that the file holds Examples.'
      : `It has ${found.map((name) => JSON.stringify(name)).join(', ')}.`;
  }
}

export function newArray(dtype: DType, length: number): TypedArray {
  const kind = dtypes[dtype].arrays[0];
  return new (kind as NonNullable<typeof kind>)(length);
}

/** A value of each element, for a feature that has a default. */
function defaultValues(feature: Feature): TypedArray | undefined {
  if (feature.kind !== 'fixed' || feature.dtype === 'string') return undefined;
  const elements = elementsIn(feature.shape);
  if (elements === 0) return newArray(feature.dtype, 0);
  const { default: value, dtype } = feature;
  if (value === undefined || typeof value === 'string') return undefined;
  const list = typeof value === 'number' ? new Array<number>(elements).fill(value) : value;
  const array = newArray(dtype, elements);
  for (const [i, each] of list.entries()) array[i] = (dtype === 'int64' ? BigInt(each) : each) as never;
  return array;
}

function columnOf(name: string, { dtype, shape }: FixedLenFeature): ColumnLayout {
  return { name, dtype: dtype as DType, shape, elements: elementsIn(shape) };
}

function notFixed(names: readonly string[], features: readonly Feature[]): HorovodError {
  const loose = names.filter((_, i) => features[i]?.kind !== 'fixed' || features[i]?.dtype === 'string');
  return new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `${loose.join(', ')} may have another size in each Example, so they have no place in the rows of a batch.`,
  );
}
