// From columns to the inputs and outputs of a model.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { batchTensors } from './batch-tensors.ts';

before(() => tf.setBackend('cpu'));

const modelOf = (inputs: number[][], outputs: number[]): tf.LayersModel => {
  const given = inputs.map((shape) => tf.input({ shape }));
  const flat = given.map((each) =>
    each.shape.length > 2 ? (tf.layers.flatten().apply(each) as tf.SymbolicTensor) : each,
  );
  const joined = flat.length === 1 ? flat[0] : tf.layers.concatenate().apply(flat);
  const made = outputs.map((units) => tf.layers.dense({ units }).apply(joined as tf.SymbolicTensor));
  return tf.model({ inputs: given, outputs: made as tf.SymbolicTensor[] });
};
const columns = {
  a: tf.tensor1d([1, 2]),
  b: tf.tensor1d([3, 4]),
  v: tf.tensor2d([
    [5, 6],
    [7, 8],
  ]),
};
const valuesOf = (made: tf.Tensor | tf.Tensor[]) =>
  (Array.isArray(made) ? made : [made]).map((tensor) => [tensor.shape, tensor.arraySync()]);

test('several columns fill the only input, in their order and its shape', () => {
  const make = batchTensors(modelOf([[2, 2]], [1]), ['a', 'b', 'v'], ['b'], 'test');
  const { xs, ys } = make(columns);
  assert.deepEqual(valuesOf(xs), [
    [
      [2, 2, 2],
      [
        [
          [1, 3],
          [5, 6],
        ],
        [
          [2, 4],
          [7, 8],
        ],
      ],
    ],
  ]);
  assert.deepEqual(valuesOf(ys), [
    [
      [2, 1],
      [[3], [4]],
    ],
  ]);
});

test('several inputs and outputs have a column each', () => {
  const make = batchTensors(modelOf([[1], [2]], [1, 2]), ['a', 'v'], ['b', 'v'], 'test');
  const { xs, ys } = make(columns);
  assert.deepEqual(valuesOf(xs), [
    [
      [2, 1],
      [[1], [2]],
    ],
    [
      [2, 2],
      [
        [5, 6],
        [7, 8],
      ],
    ],
  ]);
  assert.deepEqual(valuesOf(ys), [
    [
      [2, 1],
      [[3], [4]],
    ],
    [
      [2, 2],
      [
        [5, 6],
        [7, 8],
      ],
    ],
  ]);
});

test('the number of a class stays one value beside ten outputs', () => {
  const { ys } = batchTensors(modelOf([[2]], [10]), ['v'], ['a'], 'test')(columns);
  assert.deepEqual(valuesOf(ys), [
    [
      [2, 1],
      [[1], [2]],
    ],
  ]);
});

test('columns that do not fit are named', () => {
  const code = 'ERR_HVD_INVALID_ARGUMENT';
  assert.throws(() => batchTensors(modelOf([[1], [2]], [1]), ['a'], ['b'], 'fit()'), {
    code,
    message: /fit\(\): the model has 2 inputs \(.*\), and featureCols has 1 columns \(a\)/,
  });
  const make = batchTensors(modelOf([[5]], [1]), ['a', 'v'], ['b'], 'fit()');
  assert.throws(() => make(columns), { code, message: /shape \[5\], and a row of a, v has 3 values/ });
});
