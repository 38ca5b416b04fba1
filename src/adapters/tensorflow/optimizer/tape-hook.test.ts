import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { listenToTape } from './tape-hook.ts';

/** Gradients as heard during backpropagation, and as tf.variableGrads() gives them. */
function hear(variables: tf.Variable[], f: () => tf.Scalar) {
  const heard: { name: string; values: number[] }[] = [];
  let couldListen = false;
  const { value, grads } = tf.variableGrads(() => {
    const loss = f();
    couldListen = listenToTape(loss, variables, ({ name }, gradient) => {
      heard.push({ name, values: [...gradient.dataSync()] });
    });
    return loss;
  }, variables);
  const given = Object.fromEntries(
    Object.entries(grads).map(([name, gradient]) => [name, [...gradient.dataSync()]]),
  );
  tf.dispose([value, grads]);
  return { heard, given, couldListen };
}

describe('listening to the tape', () => {
  before(() => tf.setBackend('cpu'));

  test('gradients are heard last layer first, with the values they end up with', () => {
    const model = tf.sequential({
      layers: [
        tf.layers.dense({ units: 3, inputShape: [2], activation: 'relu' }),
        tf.layers.dense({ units: 4, activation: 'tanh' }),
        tf.layers.dense({ units: 1 }),
      ],
    });
    const variables = model.trainableWeights.map((weight) => weight.read() as tf.Variable);
    const x = tf.randomNormal([5, 2]);
    const { heard, given, couldListen } = hear(variables, () =>
      tf.tidy(() => tf.mean(model.apply(x, { training: true }) as tf.Tensor)),
    );
    assert.ok(couldListen);
    assert.equal(heard.length, 6);
    for (const { name, values } of heard) assert.deepEqual(values, given[name]);
    const layerOf = (name: string | undefined) => variables.findIndex((v) => v.name === name) >> 1;
    assert.equal(layerOf(heard[0]?.name), 2);
    assert.equal(layerOf(heard[5]?.name), 0);
    x.dispose();
    model.dispose();
  });

  test('a variable used twice is not heard: its gradient is a sum that comes later', () => {
    const [twice, once] = [tf.variable(tf.scalar(3)), tf.variable(tf.scalar(2))];
    const { heard, given } = hear([twice, once], () =>
      tf.tidy(() => tf.add(tf.mul(twice, twice), tf.mul(once, 5)) as tf.Scalar),
    );
    assert.deepEqual(heard, [{ name: once.name, values: [5] }]);
    assert.deepEqual(given[twice.name], [6]);
    tf.dispose([twice, once]);
  });

  test('uses that do not lead to the loss do not count', () => {
    const v = tf.variable(tf.scalar(3));
    const { heard } = hear([v], () =>
      tf.tidy(() => {
        tf.square(v); // looked at, not used
        return tf.mul(v, 4) as tf.Scalar;
      }),
    );
    assert.deepEqual(heard, [{ name: v.name, values: [4] }]);
    v.dispose();
  });

  test('a variable the loss does not depend on is not heard', () => {
    const [used, unused] = [tf.variable(tf.scalar(3)), tf.variable(tf.scalar(2))];
    const { heard, given } = hear([used, unused], () => tf.tidy(() => tf.mul(used, 4) as tf.Scalar));
    assert.deepEqual(heard, [{ name: used.name, values: [4] }]);
    assert.ok(!(unused.name in given));
    tf.dispose([used, unused]);
  });

  test('outside of a tape there is nothing to listen to', () => {
    const v = tf.variable(tf.scalar(3));
    assert.equal(
      listenToTape(v, [v], () => {}),
      false,
    );
    v.dispose();
  });

  test('an unknown kind of tape is left alone', () => {
    const { state } = tf.engine() as unknown as { state: { activeTape: unknown } };
    const tape = state.activeTape;
    const v = tf.variable(tf.scalar(3));
    for (const strange of [{}, [{}], [undefined], [{ inputs: {} }]]) {
      state.activeTape = strange;
      assert.equal(
        listenToTape(v, [v], () => {}),
        false,
      );
    }
    state.activeTape = tape;
    v.dispose();
  });
});
