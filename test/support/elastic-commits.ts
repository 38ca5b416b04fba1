// The suite of states of TensorFlow.js, for one backend: what a commit keeps, and what it costs in tensors.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import * as hvd from '../../src/tensorflow.ts';

const optimizers: readonly (readonly [name: string, make: () => tf.Optimizer])[] = [
  ['sgd', () => tf.train.sgd(0.1)],
  ['momentum', () => tf.train.momentum(0.1, 0.9)],
  ['momentum of Nesterov', () => tf.train.momentum(0.1, 0.9, true)],
  ['adagrad', () => tf.train.adagrad(0.1)],
  ['adadelta', () => tf.train.adadelta(0.1)],
  ['rmsprop', () => tf.train.rmsprop(0.01, 0.9, 0.5)],
  ['centred rmsprop', () => tf.train.rmsprop(0.01, 0.9, 0.5, undefined, true)],
  ['adam', () => tf.train.adam(0.05)],
  ['adamax', () => tf.train.adamax(0.05)],
];

class Setup {
  readonly variables: tf.Variable[];
  readonly optimizer: tf.Optimizer;
  readonly #x = tf.randomNormal([8, 5], 0, 1, 'float32', 3);
  #steps = 0;

  constructor(make: () => tf.Optimizer, isDistributed = false) {
    const start = tf.randomNormal([5, 3], 0, 1, 'float32', 5);
    this.variables = [tf.variable(start), tf.variable(tf.zeros([3]))];
    start.dispose();
    this.optimizer = isDistributed ? hvd.DistributedOptimizer(make()) : make();
  }

  step(): void {
    this.#steps += 1;
    const factor = this.#steps;
    this.optimizer.minimize(
      () => {
        const [kernel, bias] = this.variables as [tf.Variable<tf.Rank.R2>, tf.Variable];
        const y = tf.tanh(this.#x.matMul(kernel).add(bias).mul(factor)) as tf.Tensor;
        return y.square().mean() as tf.Scalar;
      },
      false,
      this.variables,
    );
  }

  /** Steps depend on their number: after going back, the same ones follow. */
  goBackTo(steps: number): void {
    this.#steps = steps;
  }

  bits(): string {
    const accumulators = Object.values(this.optimizer as unknown as Record<string, unknown>).flatMap(
      (value) =>
        Array.isArray(value)
          ? value.map((entry: { variable: tf.Variable } | null) => entry?.variable)
          : [value],
    );
    const tensors = [...this.variables, ...accumulators].filter(
      (each): each is tf.Variable => each instanceof tf.Variable,
    );
    const values = tensors.map((each) =>
      Buffer.from(new Uint8Array(each.dataSync().slice().buffer)).toString('hex'),
    );
    return JSON.stringify([values, this.optimizer.iterations, hvd.getLearningRate(this.optimizer)]);
  }

  dispose(): void {
    tf.dispose([this.#x, ...this.variables]);
    this.optimizer.dispose();
  }
}

const memory = () => {
  const { numTensors, numDataBuffers, numBytes } = tf.memory();
  return { numTensors, numDataBuffers, numBytes };
};

export function describeCommits(backend: string): void {
  describe(`commits of TensorFlow.js on ${backend}`, () => {
    for (const [name, make] of optimizers) {
      for (const isDistributed of [false, true]) {
        test(`${name}${isDistributed ? ', distributed' : ''}: going back gives the same bits, and the same steps follow`, () => {
          assert.equal(tf.getBackend(), backend);
          const setup = new Setup(make, isDistributed);
          const { variables, optimizer } = setup;
          const state = new hvd.elastic.TensorFlowState({ variables, optimizer, done: 0 });
          const begin = setup.bits();
          state.commitSync();
          setup.step();
          setup.step();
          state.restore();
          setup.goBackTo(0);
          assert.equal(setup.bits(), begin, 'accumulators appear with the first step: they are gone again');
          setup.step();
          state.done = 1;
          state.commitSync();
          const committed = setup.bits();
          for (let k = 0; k < 3; k += 1) setup.step();
          const later = setup.bits();
          hvd.setLearningRate(optimizer, 0.5);
          state.done = 7;
          const { numTensors } = memory();
          state.restore();
          assert.equal(setup.bits(), committed);
          assert.equal(state.done, 1);
          assert.equal(memory().numTensors, numTensors);
          setup.goBackTo(1);
          for (let k = 0; k < 3; k += 1) setup.step();
          assert.equal(setup.bits(), later);
          setup.dispose();
        });
      }
    }

    test('commits leave no tensor and no data behind, also inside tf.tidy()', () => {
      const setup = new Setup(() => tf.train.adam(0.01));
      const { variables, optimizer } = setup;
      const state = new hvd.elastic.TensorFlowState({ variables, optimizer });
      const cycle = () => {
        setup.step();
        state.commitSync();
        tf.tidy(() => {
          setup.step();
          state.commitSync();
        });
        setup.step();
        state.restore();
      };
      cycle();
      const before = memory();
      for (let k = 0; k < 20; k += 1) cycle();
      assert.deepEqual(memory(), before);
      setup.dispose();
    });

    test('a commit keeps its values although the variables have been assigned others, and once more after that (test_elastic_state)', () => {
      const variable = tf.variable(tf.tensor1d([1, 2, 3]));
      const state = new hvd.elastic.TensorFlowState({ variables: [variable] });
      tf.tidy(() => state.commitSync());
      for (let k = 0; k < 2; k += 1) {
        tf.tidy(() => variable.assign(tf.tensor1d([7, 8, 9])));
        state.restore();
        assert.deepEqual([...variable.dataSync()], [1, 2, 3]);
      }
      variable.dispose();
      assert.throws(() => state.restore(), {
        code: 'ERR_HVD_INVALID_ARGUMENT',
        message: /has been disposed/,
      });
    });

    test('a fit() that ends in the middle is undone', async () => {
      const model = tf.sequential({ layers: [tf.layers.dense({ units: 2, inputShape: [3] })] });
      model.compile({ optimizer: tf.train.adam(0.1), loss: 'meanSquaredError' });
      const variables = model.weights.map((weight) => weight.read() as tf.Variable);
      const state = new hvd.elastic.TensorFlowState({ variables, optimizer: model.optimizer });
      const [x, y] = [tf.ones([8, 3]), tf.ones([8, 2])];
      const bits = () => variables.map((variable) => [...variable.dataSync()]);
      let committed: number[][] = [];
      const interrupt = new Error('a rank is lost');
      const onBatchEnd = async (batch: number) => {
        if (batch === 1) {
          state.commitSync();
          committed = bits();
        }
        if (batch === 3) throw interrupt;
      };
      const train = () =>
        model.fit(x, y, { batchSize: 1, verbose: 0, shuffle: false, callbacks: { onBatchEnd } });
      await assert.rejects(train(), interrupt);
      assert.notDeepEqual(bits(), committed);
      state.restore();
      assert.deepEqual(bits(), committed);
      await assert.rejects(train(), interrupt, 'the model can be trained again');
      state.restore();
      tf.dispose([x, y]);
      model.dispose();
    });

    test('an aggregation of gradients is committed only between steps, and dropped when going back', () => {
      const setup = new Setup(() => tf.train.sgd(0.1));
      const optimizer = hvd.DistributedOptimizer(setup.optimizer, { backwardPassesPerStep: 2 });
      const state = new hvd.elastic.TensorFlowState({ variables: setup.variables, optimizer, done: 0 });
      state.commitSync();
      setup.step();
      state.commitSync();
      assert.equal(state.commits, 1, 'in the middle of a step nothing is saved');
      setup.step();
      state.commitSync();
      assert.equal(state.commits, 2);
      const { numTensors } = memory();
      setup.step();
      state.restore();
      assert.equal(memory().numTensors, numTensors, 'the sums are gone');
      setup.step();
      state.commitSync();
      assert.equal(state.commits, 2, 'a new step has begun');
      setup.dispose();
    });
  });
}
