// SequenceExamples as the pipeline reads them: the features of the context, as those of an Example, and feature lists as tensors
// whose first dimension is the step.

import { HorovodError } from '../../../errors.ts';
import { elementsIn } from '../../../tensor/tensor.ts';
import type { Decoder, ElementRecord, ElementValue } from '../format.ts';
import { ExampleDecoder, newArray } from './example-decoder.ts';
import { FeatureTable } from './feature-table.ts';
import { copyNumbers, type ListShape, measure, readStrings, ValueTarget } from './feature-values.ts';
import type { Feature, Features } from './features.ts';
import { malformed, WireReader, wire } from './wire-reader.ts';

/** FeatureLists feature_lists = 2 */
const featureLists = 2 * 8 + wire.lengthPrefixed;
const feature = 8 + wire.lengthPrefixed;

/**
 * The lists of `sequence` are FixedLenSequenceFeature, a tensor [steps, ...shape], or VarLenFeature: a tensor of all values, and
 * beside it `<name>/lengths`, how many of them each step has. Strings are lists of byte strings.
 */
export function sequenceExampleDecoder(context: Features, sequence: Features): Decoder {
  for (const [name, { kind }] of Object.entries(sequence)) {
    const problem =
      name in context
        ? 'is also the name of a feature of the context'
        : kind === 'fixed'
          ? 'is a FixedLenFeature; feature lists are FixedLenSequenceFeature or VarLenFeature'
          : undefined;
    if (problem !== undefined) {
      throw new HorovodError(
        'ERR_HVD_INVALID_ARGUMENT',
        `parseSequenceExample(): ${JSON.stringify(name)} ${problem}.`,
      );
    }
  }
  const contextDecoder = new ExampleDecoder(context);
  const entries = Object.entries(sequence);
  const table = new FeatureTable(entries.map(([name]) => name));
  const reader = new WireReader();
  return {
    columns: null,
    element(bytes, start, length): ElementRecord {
      const element: Record<string, ElementValue> = { ...contextDecoder.element(bytes, start, length) };
      reader.use(bytes);
      reader.at = start;
      table.clear();
      let place = 0;
      for (const end = start + length; reader.at < end; ) {
        const key = reader.key(end);
        if (key === featureLists) place = table.locate(reader, reader.endOfField(end), place);
        else reader.skip(key, end);
      }
      for (const [i, [name, wanted]] of entries.entries()) {
        const steps = stepsOf(reader, table.starts[i] as number, table.ends[i] as number);
        Object.assign(element, valuesOf(reader, name, wanted, steps));
      }
      return element;
    },
    fill() {
      throw new HorovodError('ERR_HVD_INVALID_ARGUMENT', 'The size of a SequenceExample is not fixed.');
    },
  };
}

type Range = readonly [start: number, end: number];

/** The Feature messages of a FeatureList; a missing list has none. */
function stepsOf(reader: WireReader, start: number, end: number): Range[] {
  const steps: Range[] = [];
  if (start < 0) return steps;
  reader.at = start;
  while (reader.at < end) {
    const key = reader.key(end);
    if (key !== feature) {
      reader.skip(key, end);
      continue;
    }
    const to = reader.endOfField(end);
    steps.push([reader.at, to]);
    reader.at = to;
  }
  return steps;
}

function valuesOf(reader: WireReader, name: string, wanted: Feature, steps: readonly Range[]): ElementRecord {
  const perStep = wanted.kind === 'sequence' ? elementsIn(wanted.shape) : undefined;
  const shapes = steps.map(([start, end]) => {
    const shape: ListShape = { kind: undefined, count: 0, bytes: 0 };
    reader.at = start;
    measure(reader, end, shape);
    return shape;
  });
  const wrong = shapes.findIndex(
    ({ kind, count }) =>
      (perStep !== undefined && count !== perStep) ||
      (kind !== undefined && (kind === 'bytes') !== (wanted.dtype === 'string')),
  );
  if (wrong >= 0) {
    const { kind = 'no', count } = shapes[wrong] as ListShape;
    const needs = perStep === undefined ? '' : ` with ${perStep} values for each step`;
    throw new HorovodError(
      'ERR_HVD_DATA_FILE',
      `Feature list ${JSON.stringify(name)} is asked for as ${wanted.dtype}${needs}, but step ${wrong} has ${count} ${kind} values.`,
    );
  }
  const lengths = {
    data: Int32Array.from(shapes, ({ count }) => count),
    shape: [steps.length],
    dtype: 'int32',
  } as const;
  const rest = wanted.kind === 'sequence' ? wanted.shape : [];
  if (wanted.dtype === 'string') {
    const strings = steps.flatMap(([start, end]) => {
      reader.at = start;
      return readStrings(reader, end);
    });
    return perStep === undefined ? { [name]: strings, [`${name}/lengths`]: lengths } : { [name]: strings };
  }
  const total = shapes.reduce((sum, { count }) => sum + count, 0);
  const data = newArray(wanted.dtype, total);
  const target = new ValueTarget(data, wanted.dtype);
  let first = 0;
  for (const [start, end] of steps) {
    reader.at = start;
    const count = copyNumbers(reader, end, target, first, total - first);
    if (count < 0) {
      const why =
        count === -1 ? `a value does not fit into ${wanted.dtype}` : `its values are not ${wanted.dtype}`;
      throw malformed(`feature list ${JSON.stringify(name)}: ${why}`);
    }
    first += count;
  }
  const shape = perStep === undefined ? [total] : [steps.length, ...rest];
  const values = { data, shape, dtype: wanted.dtype };
  return perStep === undefined ? { [name]: values, [`${name}/lengths`]: lengths } : { [name]: values };
}
