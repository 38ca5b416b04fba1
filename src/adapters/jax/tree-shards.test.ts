import assert from 'node:assert/strict';
import { test } from 'node:test';
import { numpy as np } from '@jax-js/jax';
import { ProcessSet } from '../../operations/process-set.ts';
import { TreeShards } from './tree-shards.ts';
import { takeApart } from './trees.ts';

const shardsOf = () => new TreeShards({ what: 'DistributedOptimizer', processSet: undefined });
const cut = { total: 5, index: 1, members: 2 };

test('arrays as long as a shard are noted, and others are not', () => {
  const shards = shardsOf();
  const [mean, decay, table] = [np.zeros([3]), np.ones([]), np.zeros([3, 1])];
  shards.noteAll(takeApart({ mean, decay, table, steps: 3 }, 'x').leaves, cut);
  assert.deepEqual(
    [mean, decay, table].map((array) => shards.cutOf(array)),
    [cut, undefined, undefined],
  );
});

test('in an elastic job, only a state that a JaxState keeps, and that is cut for the ranks of the moment, is taken', () => {
  const shards = shardsOf();
  const mean = np.zeros([3]);
  const { leaves } = takeApart({ mean }, 'x');
  shards.note(mean, cut);
  assert.throws(() => shards.checkState(leaves, cut), {
    code: 'ERR_HVD_INVALID_ARGUMENT',
    message: /unless a JaxState keeps it: new hvd\.elastic\.JaxState/,
  });
  shards.isKept = true;
  shards.checkState(leaves, cut);
  assert.throws(() => shards.checkState(leaves, { total: 5, index: 0, members: 3 }), {
    code: 'ERR_HVD_STALE',
    message: /mean is shard 1 of 2, and this rank needs shard 0 of 3: the ranks of the job have changed/,
  });
  const other = takeApart({ mean: np.zeros([3]) }, 'x').leaves;
  assert.throws(() => shards.checkState(other, cut), {
    code: 'ERR_HVD_INVALID_ARGUMENT',
    message: /mean is as long as a shard, and was not made by this optimizer/,
  });
});

test('an elastic state takes no shards of some ranks only', () => {
  const processSet = new ProcessSet([0, 1]);
  const shards = new TreeShards({ what: 'DistributedOptimizer', processSet });
  assert.throws(() => shards.checkElastic('JaxState'), {
    code: 'ERR_HVD_INVALID_ARGUMENT',
    message: /JaxState: the state of an optimizer is sharded over some ranks only/,
  });
  shardsOf().checkElastic('JaxState');
});
