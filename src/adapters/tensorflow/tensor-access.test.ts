import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { setBackend } from './backend/set-backend.ts';
import { copyTensor, dtypeOf, isSoleOwner, liveView, makeTensor, readTensor } from './tensor-access.ts';

for (const backend of ['cpu', 'wasm'] as const) {
  describe(`the memory of tensors on ${backend}`, () => {
    test('a live view reads and writes the tensor', async () => {
      await setBackend(backend);
      const tensor = tf.mul(tf.tensor1d([1, 2, 3]), 2);
      const view = liveView(tensor);
      assert.deepEqual([...(view as Float32Array)], [2, 4, 6]);
      (view as Float32Array)[1] = 7;
      assert.deepEqual([...tf.add(tensor, 1).dataSync()], [3, 8, 7]);
    });

    test('bool and int32 have the arrays the core expects', () => {
      assert.ok(readTensor(tf.tensor1d([true, false], 'bool')) instanceof Uint8Array);
      assert.ok(readTensor(tf.tensor1d([1, 2], 'int32')) instanceof Int32Array);
    });

    test('float32 stays float32 where the backend keeps whole numbers', () => {
      const hot = tf.oneHot(tf.tensor1d([1], 'int32'), 2).toFloat();
      const values = readTensor(hot);
      assert.ok(values instanceof Float32Array);
      assert.deepEqual([...values], [0, 1]);
    });

    test('a copy shares nothing, another shape of the same values does', () => {
      const tensor = tf.tensor1d([1, 2, 3]);
      assert.ok(isSoleOwner(tensor));
      const column = tensor.reshape([3, 1]);
      assert.ok(!isSoleOwner(tensor));
      const copy = copyTensor(tensor);
      assert.ok(isSoleOwner(copy));
      (liveView(copy) as Float32Array)[0] = 9;
      assert.deepEqual([...tensor.dataSync()], [1, 2, 3]);
      tf.dispose([tensor, column, copy]);
    });

    test('empty and disposed tensors have no live view', () => {
      assert.equal(liveView(tf.zeros([0, 2])), undefined);
      assert.equal(readTensor(tf.zeros([0, 2])).length, 0);
      const gone = tf.ones([1]);
      gone.dispose();
      assert.equal(liveView(gone), undefined);
    });

    test('a scalar made from an array is a scalar', () => {
      assert.deepEqual(makeTensor(Float32Array.of(4), [], 'float32').shape, []);
    });
  });
}

test('strings and complex numbers are rejected', async () => {
  await setBackend('cpu');
  assert.throws(() => dtypeOf(tf.tensor1d(['a']), 'allreduce'), /allreduce: tensors of dtype string/);
  assert.throws(() => dtypeOf(tf.complex([1], [2]), 'allreduce'), /dtype complex64/);
});

test('a tensor of another backend has no live view, and is read all the same', async () => {
  await setBackend('cpu');
  const tensor = tf.tensor1d([1, 2]);
  await setBackend('wasm');
  assert.equal(liveView(tensor), undefined);
  assert.deepEqual([...readTensor(tensor)], [1, 2]);
});
