// From the columns of a batch to the inputs and outputs of a model: one column for each, or several that together fill the only one.

import * as tf from '@tensorflow/tfjs';
import { invalid } from '../../../operations/check-options.ts';

export type Columns = Readonly<Record<string, tf.Tensor>>;

/** What fitDataset() takes. */
export interface ModelBatch {
  readonly xs: tf.Tensor | tf.Tensor[];
  readonly ys: tf.Tensor | tf.Tensor[];
}

/** Checks the numbers of columns. The result makes the tensors of a batch; those that it was given are not disposed. */
export function batchTensors(
  model: tf.LayersModel,
  featureCols: readonly string[],
  labelCols: readonly string[],
  what: string,
): (columns: Columns) => ModelBatch {
  const xs = sideOf('featureCols', featureCols, model.inputs, what);
  const ys = sideOf('labelCols', labelCols, model.outputs, what);
  return (columns) => tf.tidy(() => ({ xs: xs(columns), ys: ys(columns) }));
}

type Side = (columns: Columns) => tf.Tensor | tf.Tensor[];

function sideOf(
  option: 'featureCols' | 'labelCols',
  names: readonly string[],
  places: readonly tf.SymbolicTensor[],
  what: string,
): Side {
  const isExact = option === 'featureCols';
  const [only] = places;
  if (places.length === 1 && only !== undefined) {
    return (columns) => shaped(joined(names, columns), only, { names, isExact, what });
  }
  if (names.length !== places.length) {
    const kind = isExact ? 'inputs' : 'outputs';
    throw invalid(
      what,
      `the model has ${places.length} ${kind} (${places.map(({ name }) => name).join(', ')}), and ${option} has ` +
        `${names.length} columns (${names.join(', ')}); give one column for each`,
    );
  }
  return (columns) =>
    places.map((place, i) => {
      const name = names[i] as string;
      return shaped(joined([name], columns), place, { names: [name], isExact, what });
    });
}

/** [rows, values]: the values of several columns beside each other. */
function joined(names: readonly string[], columns: Columns): tf.Tensor2D {
  const parts = names.map((name) => {
    const column = columns[name] as tf.Tensor;
    return column.reshape([column.shape[0] ?? 0, -1]) as tf.Tensor2D;
  });
  return parts.length === 1 ? (parts[0] as tf.Tensor2D) : tf.concat(parts, 1);
}

interface About {
  readonly names: readonly string[];
  /** Labels may have another size than the output: the number of a class. */
  readonly isExact: boolean;
  readonly what: string;
}

function shaped(values: tf.Tensor2D, { shape, dtype, name }: tf.SymbolicTensor, about: About): tf.Tensor {
  const { names, isExact, what } = about;
  const [rows, given] = values.shape;
  const dims = shape.slice(1);
  const isKnown = dims.every((size) => size !== null);
  const wanted = dims.reduce<number>((product, size) => product * (size ?? 1), 1);
  const typed = isExact && dtype === 'int32' ? values.toInt() : values;
  if (isKnown && wanted === given) return typed.reshape([rows, ...(dims as number[])]);
  // A sequence of any length.
  if (!isKnown && dims.length === 1) return typed;
  if (!isExact) return typed;
  throw invalid(
    what,
    `the input ${name} of the model has shape [${dims.map((size) => size ?? 'any').join(', ')}], and a row of ${names.join(', ')} has ` +
      `${given} value${given === 1 ? '' : 's'}`,
  );
}
