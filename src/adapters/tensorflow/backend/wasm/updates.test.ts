// Updates of optimizers in one pass, against TensorFlow.js' own on the cpu backend: weights and state after several steps.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { kinds, some, theBackend } from '../../../../../test/support/same-as-cpu.ts';
import { setBackend } from '../set-backend.ts';
import { type KernelSetName, useKernelSet } from './compiled-kernels.ts';

await setBackend('wasm');
const kernelCount = countKernels();
after(() => kernelCount.restore());

const optimizers: Readonly<Record<string, () => tf.Optimizer>> = {
  sgd: () => tf.train.sgd(0.1),
  momentum: () => tf.train.momentum(0.1, 0.8),
  'momentum (Nesterov)': () => tf.train.momentum(0.1, 0.8, true),
  adam: () => tf.train.adam(0.05, 0.8, 0.95),
  rmsprop: () => tf.train.rmsprop(0.05, 0.8, 0.7),
  'rmsprop (centered)': () => tf.train.rmsprop(0.05, 0.8, 0.7, 1e-12, true),
  adagrad: () => tf.train.adagrad(0.1, 0.2),
};
const shapes = [[1], [3, 5], [], [37], [0, 4], [2, 17, 3]];
const steps = 4;

interface Outcome {
  readonly weights: Float32Array[];
  readonly state: Map<string, Float32Array>;
  /** What somebody who referred to the first weights sees at the end. */
  readonly first: Float32Array[];
}

/** Trains on gradients that depend on the step alone. The second variable has none in the second step. */
async function train(make: () => tf.Optimizer): Promise<Outcome> {
  const optimizer = make();
  const variables = shapes.map((shape, i) =>
    tf.variable(tf.tensor(some(i + 1, shape).values, shape), true, `v${i}`),
  );
  const references = variables.map((variable) => variable.clone());
  let tensors = 0;
  for (let step = 0; step < steps; step++) {
    const named = variables.map(({ name, shape }, i) => ({
      name,
      tensor: (step === 1 && i === 1
        ? null
        : tf.tensor(some(100 * step + i, shape).values, shape)) as tf.Tensor,
    }));
    optimizer.applyGradients(named);
    tf.dispose(named.flatMap(({ tensor }) => tensor ?? []));
    if (step > 1) assert.equal(tf.memory().numTensors, tensors, 'a step leaves no tensors');
    tensors = tf.memory().numTensors;
  }
  const values = (list: tf.Tensor[]) => list.map((tensor) => tensor.dataSync().slice() as Float32Array);
  const state = await optimizer.getWeights();
  const outcome = {
    weights: values(variables),
    state: new Map(state.map(({ name, tensor }) => [name, tensor.dataSync().slice() as Float32Array])),
    first: values(references),
  };
  tf.dispose([...variables, ...references, ...state.map(({ tensor }) => tensor)]);
  optimizer.dispose();
  return outcome;
}

const sets = kinds().filter((kind): kind is KernelSetName => kind !== 'plain');

for (const [name, make] of Object.entries(optimizers)) {
  describe(`${name} in one pass`, () => {
    for (const set of sets) {
      test(`${set}: the weights and the state of TensorFlow.js, and the old weights stay`, async () => {
        await tf.setBackend('cpu');
        const expected = await train(make);
        await tf.setBackend('wasm');
        assert.ok(useKernelSet(theBackend(), set));
        kernelCount.reset();
        const found = await train(make);
        // Two for the powers of Adam's betas; the original runs six or more for each variable.
        const used = kernelCount.arithmetic();
        assert.ok(used <= 2 * steps, `${used} elementwise kernels`);
        assert.deepEqual([...found.state.keys()], [...expected.state.keys()]);
        closeTo(found.weights, expected.weights);
        closeTo([...found.state.values()], [...expected.state.values()]);
        assert.deepEqual(found.first, expected.first);
        assert.deepEqual(
          found.first,
          shapes.map((shape, i) => some(i + 1, shape).values),
        );
      });
    }
  });
}

test('values of another type are left to TensorFlow.js, and so are errors', async () => {
  await tf.setBackend('wasm');
  const optimizer = tf.train.sgd(1);
  const gradient = tf.ones([2]);
  assert.throws(() => optimizer.applyGradients([{ name: 'no such variable', tensor: gradient }]));
  const variable = tf.variable(tf.zeros([2]), true, 'odd');
  const integers = tf.tensor1d([1, 2], 'int32');
  optimizer.applyGradients([{ name: 'odd', tensor: integers }]);
  assert.deepEqual([...variable.dataSync()], [-1, -2]);
  tf.dispose([gradient, variable, integers]);
});

test('NaN, infinity and subnormal gradients give what the formulas give', () => {
  const gradient = tf.tensor1d([Number.NaN, Number.POSITIVE_INFINITY, 1e-40, -1e-45]);
  const variable = tf.variable(tf.zeros([4]), true, 'strange');
  tf.train.sgd(1).applyGradients([{ name: 'strange', tensor: gradient }]);
  const expected = Float32Array.of(Number.NaN, Number.NEGATIVE_INFINITY, -1e-40, 1e-45);
  assert.deepEqual(variable.dataSync(), expected);
  tf.dispose([gradient, variable]);
});

function closeTo(found: readonly Float32Array[], expected: readonly Float32Array[]): void {
  assert.equal(found.length, expected.length);
  for (const [i, list] of found.entries()) {
    assert.equal(list.length, expected[i]?.length);
    for (const [j, value] of list.entries()) {
      const wanted = expected[i]?.[j] as number;
      assert.ok(Math.abs(value - wanted) <= 2e-6 * Math.max(1, Math.abs(wanted)), `${value}, not ${wanted}`);
    }
  }
}

/** Counts calls of the elementwise kernels that the original updates consist of. */
function countKernels(): { reset(): void; arithmetic(): number; restore(): void } {
  let calls = 0;
  const names = ['Add', 'AddN', 'Multiply', 'Sub', 'RealDiv', 'Sqrt', 'Square'];
  const originals = names.flatMap((name) => tf.getKernel(name, 'wasm') ?? []);
  for (const original of originals) {
    tf.unregisterKernel(original.kernelName, 'wasm');
    tf.registerKernel({
      ...original,
      kernelFunc: (call) => {
        calls++;
        return original.kernelFunc(call);
      },
    });
  }
  return {
    reset: () => {
      calls = 0;
    },
    arithmetic: () => calls,
    restore: () => {
      for (const original of originals) {
        tf.unregisterKernel(original.kernelName, 'wasm');
        tf.registerKernel(original);
      }
    },
  };
}
