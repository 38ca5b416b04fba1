import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { describeCommits } from '../../../../test/support/elastic-commits.ts';
import * as hvd from '../../../tensorflow.ts';

before(() => hvd.init());
after(() => hvd.shutdown());

for (const backend of ['cpu', 'wasm'] as const) {
  describe(`with ${backend}`, () => {
    before(async () => {
      await hvd.setBackend(backend);
    });
    describeCommits(backend);
  });
}

describe('TensorFlowState', () => {
  test('commits made on one backend are restored on another', async () => {
    await hvd.setBackend('cpu');
    const variable = tf.variable(tf.tensor1d([1, 2]));
    const state = new hvd.elastic.TensorFlowState({ variables: [variable] });
    state.commitSync();
    await hvd.setBackend('wasm');
    tf.tidy(() => variable.assign(variable.mul(3)));
    state.restore();
    tf.tidy(() => variable.assign(variable.mul(2)));
    assert.deepEqual([...variable.dataSync()], [2, 4]);
    state.restore();
    assert.deepEqual([...variable.dataSync()], [1, 2]);
    variable.dispose();
  });

  test('takes all trainable variables unless told which', () => {
    const [weight, frozen] = [tf.variable(tf.scalar(1)), tf.variable(tf.scalar(1), false)];
    const state = new hvd.elastic.TensorFlowState({ epoch: 0 });
    state.commitSync();
    for (const variable of [weight, frozen]) tf.tidy(() => variable.assign(tf.scalar(2)));
    state.epoch = 5;
    state.restore();
    assert.deepEqual([weight.dataSync()[0], frozen.dataSync()[0], state.epoch], [1, 2, 0]);
    tf.dispose([weight, frozen]);
  });

  test('what it cannot keep is rejected', () => {
    const make = (content: object) => () => new hvd.elastic.TensorFlowState(content as never);
    const invalid = (message: RegExp) => ({ code: 'ERR_HVD_INVALID_ARGUMENT', message });
    assert.throws(make({ variables: 3 }), invalid(/a list of variables/));
    assert.throws(make({ variables: [3] }), invalid(/tf\.Variable/));
    assert.throws(make({ variables: [], optimizer: 'adam' }), invalid(/tf\.train\.adam/));
    assert.throws(make({ variables: [], model: tf.sequential() }), invalid(/KerasState/));
    const processSet = new hvd.ProcessSet([0, 1]);
    const sharded = hvd.DistributedOptimizer(tf.train.adam(), { shardOptimizerState: true, processSet });
    assert.throws(make({ variables: [], optimizer: sharded }), invalid(/shardOptimizerState/));
    assert.throws(make({ variables: [], mirrorEvery: 0 }), invalid(/mirrorEvery/));
  });
});
