// Whole Examples and SequenceExamples as JavaScript values, with every feature they have. Pipelines read only the features they
// are asked for, and faster: example-decoder.ts.
//
//   SequenceExample { Features context = 1; FeatureLists feature_lists = 2 }
//   FeatureLists { map<string, FeatureList> feature_list = 1 }     FeatureList { repeated Feature feature = 1 }

import { copyNumbers, type ListShape, measure, readStrings, ValueTarget } from './feature-values.ts';
import { malformed, WireReader, wire } from './wire-reader.ts';

/** A list of int64, float or byte strings, as the message has it; an empty Feature is an empty list. */
export type ExampleValue = BigInt64Array | Float32Array | Uint8Array[];

export interface SequenceExampleValues {
  readonly context: Readonly<Record<string, ExampleValue>>;
  /** For each feature list its features, one per step. */
  readonly sequence: Readonly<Record<string, readonly ExampleValue[]>>;
}

/** All features of a serialized tf.train.Example. */
export function decodeExample(bytes: Uint8Array): Record<string, ExampleValue> {
  const reader = readerOf(bytes);
  const features = new Map<string, ExampleValue>();
  for (const [field, end] of messagesIn(reader, bytes.length)) {
    if (field === 1) readFeatures(reader, end, features);
    reader.at = end;
  }
  return Object.fromEntries(features);
}

/** All features of a serialized tf.train.SequenceExample. */
export function decodeSequenceExample(bytes: Uint8Array): SequenceExampleValues {
  const reader = readerOf(bytes);
  const context = new Map<string, ExampleValue>();
  const sequence = new Map<string, ExampleValue[]>();
  for (const [field, end] of messagesIn(reader, bytes.length)) {
    if (field === 1) readFeatures(reader, end, context);
    else if (field === 2) {
      readEntries(reader, end, (name, valueEnd) => {
        const list: ExampleValue[] = [];
        for (const [inner, featureEnd] of messagesIn(reader, valueEnd)) {
          if (inner === 1) list.push(readFeature(reader, featureEnd));
          reader.at = featureEnd;
        }
        sequence.set(name, list);
      });
    }
    reader.at = end;
  }
  return { context: Object.fromEntries(context), sequence: Object.fromEntries(sequence) };
}

function readerOf(bytes: Uint8Array): WireReader {
  const reader = new WireReader();
  reader.use(bytes);
  return reader;
}

function readFeatures(reader: WireReader, end: number, into: Map<string, ExampleValue>): void {
  readEntries(reader, end, (name, valueEnd) => into.set(name, readFeature(reader, valueEnd)));
}

/** Entries of a map; `visit` is called with reader.at at the beginning of the value. */
function readEntries(reader: WireReader, end: number, visit: (name: string, valueEnd: number) => void): void {
  for (const [field, entryEnd] of messagesIn(reader, end)) {
    if (field === 1) {
      let name = '';
      let value: readonly [number, number] = [entryEnd, entryEnd];
      for (const [inner, to] of messagesIn(reader, entryEnd)) {
        if (inner === 1) name = Buffer.from(reader.bytes.subarray(reader.at, to)).toString();
        if (inner === 2) value = [reader.at, to];
        reader.at = to;
      }
      reader.at = value[0];
      visit(name, value[1]);
    }
    reader.at = entryEnd;
  }
}

function readFeature(reader: WireReader, end: number): ExampleValue {
  const start = reader.at;
  const shape: ListShape = { kind: undefined, count: 0, bytes: 0 };
  measure(reader, end, shape);
  reader.at = start;
  if (shape.kind === undefined || shape.kind === 'bytes') return readStrings(reader, end);
  const array = shape.kind === 'float' ? new Float32Array(shape.count) : new BigInt64Array(shape.count);
  const target = new ValueTarget(array, shape.kind === 'float' ? 'float32' : 'int64');
  if (copyNumbers(reader, end, target, 0, shape.count) !== shape.count) throw malformed('a list is cut off');
  return array;
}

/** Number and end of each length-prefixed field up to `end`; others are passed over. The caller sets reader.at to the end. */
function* messagesIn(
  reader: WireReader,
  end: number,
): Generator<readonly [field: number, end: number], void, void> {
  while (reader.at < end) {
    const key = reader.key(end);
    if ((key & 7) === wire.lengthPrefixed) yield [key >>> 3, reader.endOfField(end)];
    else reader.skip(key, end);
  }
}
