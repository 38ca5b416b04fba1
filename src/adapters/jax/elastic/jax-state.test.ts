import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { numpy as np } from '@jax-js/jax';
import * as hvd from '../../../jax.ts';

before(() => hvd.init());
after(() => hvd.shutdown());

const valuesOf = (array: np.Array) => [...(array.ref.dataSync() as Float32Array)];
const counted = (array: np.Array) => (array as unknown as { refCount: number }).refCount;

describe('JaxState', () => {
  test('trees of the last commit come back, as often as needed, and nothing else is left', async () => {
    const state = new hvd.elastic.JaxState({
      trees: { params: { w: np.array([1, 2]), b: np.array([3]) }, steps: 4 },
      epoch: 1,
    });
    await state.commit();
    const first = state.trees.params;
    for (let k = 0; k < 2; k += 1) {
      const made = np.array([7, 8]);
      // A step that moves the parameters, and replaces only one of them.
      state.trees.params.w.dispose();
      state.trees.params = { w: made, b: state.trees.params.b };
      state.trees.steps = 9;
      state.epoch = 5;
      state.restore();
      assert.deepEqual([valuesOf(state.trees.params.w), valuesOf(state.trees.params.b)], [[1, 2], [3]]);
      assert.deepEqual([state.trees.steps, state.epoch], [4, 1]);
      assert.deepEqual([counted(first.w), counted(first.b), counted(made)], [2, 2, 0]);
    }
    state.trees.params = { w: np.array([5, 6]), b: np.array([7]) };
    first.w.dispose();
    first.b.dispose();
    state.commitSync();
    assert.deepEqual([counted(first.w), counted(first.b)], [0, 0]);
    await state.sync();
    assert.deepEqual(valuesOf(state.trees.params.w), [5, 6]);
  });

  test('in the middle of a step of several passes nothing is committed', () => {
    const optimizer = hvd.DistributedOptimizer(hvd.sgd(0.1), { backwardPassesPerStep: 2 });
    const params = { w: np.array([1, 2]) };
    const state = new hvd.elastic.JaxState({ trees: { params, opt: optimizer.init({ w: params.w.ref }) } });
    const pass = () => {
      const [updates, opt] = optimizer.update({ w: np.array([1, 1]) }, state.trees.opt as never);
      (updates as { w: np.Array }).w.dispose();
      state.trees.opt = opt as never;
    };
    state.commitSync();
    pass();
    state.commitSync();
    assert.equal(state.commits, 1);
    pass();
    state.commitSync();
    assert.equal(state.commits, 2);
  });

  test('what is no tree is rejected', () => {
    const make = (content: object) => () => new hvd.elastic.JaxState(content as never);
    const invalid = { code: 'ERR_HVD_INVALID_ARGUMENT' };
    assert.throws(make({ trees: 3 }), invalid);
    assert.throws(make({ trees: { params: 'text' } }), invalid);
    assert.throws(make({ trees: {}, f: () => 1 }), invalid);
    assert.throws(make({ trees: {}, mirrorEvery: 0 }), {
      ...invalid,
      message: /JaxState: mirrorEvery is a whole number from 1, not 0/,
    });
  });
});
