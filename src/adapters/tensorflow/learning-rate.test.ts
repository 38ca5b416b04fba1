import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../errors.ts';
import { getLearningRate, getMomentum, setLearningRate, setMomentum } from './learning-rate.ts';

before(() => tf.setBackend('cpu'));

/** Every optimizer of tf.train, made with a learning rate. */
const makers: Record<string, (lr: number) => tf.Optimizer> = {
  sgd: (lr) => tf.train.sgd(lr),
  momentum: (lr) => tf.train.momentum(lr, 0.9),
  nesterov: (lr) => tf.train.momentum(lr, 0.9, true),
  adam: (lr) => tf.train.adam(lr),
  adamax: (lr) => tf.train.adamax(lr),
  rmsprop: (lr) => tf.train.rmsprop(lr, 0.9, 0.5),
  adagrad: (lr) => tf.train.adagrad(lr),
  adadelta: (lr) => tf.train.adadelta(lr),
};

/** The weight after some steps; `change` is called before each. */
function train(optimizer: tf.Optimizer, steps: number, change: (step: number) => void): number {
  const weight = tf.variable(tf.scalar(1));
  for (let step = 0; step < steps; step += 1) {
    change(step);
    optimizer.minimize(() => tf.square(tf.mul(weight, 1.5)) as tf.Scalar, false, [weight]);
  }
  const value = weight.dataSync()[0] as number;
  weight.dispose();
  return value;
}

for (const [name, make] of Object.entries(makers)) {
  describe(name, () => {
    test('a changed learning rate is the one the next step uses', () => {
      const changed = make(0.5);
      assert.equal(getLearningRate(changed), 0.5);
      const value = train(changed, 3, () => setLearningRate(changed, 0.03));
      assert.equal(getLearningRate(changed), 0.03);
      assert.equal(
        value,
        train(make(0.03), 3, () => {}),
      );
      assert.notEqual(
        value,
        train(make(0.5), 3, () => {}),
      );
    });

    test('changing it leaves no tensors behind', () => {
      const optimizer = make(0.5);
      const tensors = tf.memory().numTensors;
      tf.tidy(() => setLearningRate(optimizer, 0.1));
      setLearningRate(optimizer, 0.2);
      if (getMomentum(optimizer) !== undefined) {
        tf.tidy(() => setMomentum(optimizer, 0.1));
        setMomentum(optimizer, 0.2);
      }
      assert.equal(tf.memory().numTensors, tensors);
      train(optimizer, 1, () => {});
    });
  });
}

for (const [name, make] of Object.entries({
  momentum: (momentum: number) => tf.train.momentum(0.05, momentum),
  nesterov: (momentum: number) => tf.train.momentum(0.05, momentum, true),
  rmsprop: (momentum: number) => tf.train.rmsprop(0.05, 0.9, momentum),
})) {
  test(`${name}: a changed momentum is the one the next step uses`, () => {
    const changed = make(0.9);
    assert.equal(getMomentum(changed), 0.9);
    const value = train(changed, 4, () => setMomentum(changed, 0.25));
    assert.equal(getMomentum(changed), 0.25);
    assert.equal(
      value,
      train(make(0.25), 4, () => {}),
    );
    assert.notEqual(
      value,
      train(make(0.9), 4, () => {}),
    );
  });
}

test('optimizers without momentum have none to get or set', () => {
  const adam = tf.train.adam(0.1);
  assert.equal(getMomentum(adam), undefined);
  assert.throws(() => setMomentum(adam, 0.5), { code: 'ERR_HVD_INVALID_ARGUMENT' });
});

test('an optimizer without a number for its learning rate is rejected by name', () => {
  const strange = tf.train.sgd(0.1);
  (strange as unknown as { learningRate: unknown }).learningRate = 'fast';
  assert.throws(
    () => setLearningRate(strange, 0.1),
    (error: unknown) => HorovodError.is(error) && /SGD has no number/.test((error as Error).message),
  );
});

test('what is no finite number, and what is no optimizer, is rejected', () => {
  const code = 'ERR_HVD_INVALID_ARGUMENT';
  const momentum = tf.train.momentum(0.1, 0.9);
  for (const wrong of [Number.NaN, Number.POSITIVE_INFINITY, '0.1', undefined]) {
    assert.throws(() => setLearningRate(momentum, wrong as never), { code, message: /finite number/ });
    assert.throws(() => setMomentum(momentum, wrong as never), { code, message: /finite number/ });
  }
  assert.deepEqual([getLearningRate(momentum), getMomentum(momentum)], [0.1, 0.9]);
  for (const get of [getLearningRate, getMomentum])
    assert.throws(() => get(undefined as never), { code, message: /expected an optimizer/ });
});
