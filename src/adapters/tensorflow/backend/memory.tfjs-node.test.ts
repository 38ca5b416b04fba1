// bulkMemory() against tfjs-node's own way of reading and making tensors. Run by the stage tfjs-node only.

import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { setBackend } from './set-backend.ts';
import { type BulkMemory, bulkMemory, bulkMemoryReason } from './tfjs-node-memory.ts';

const sizes = [1, 2, 3, 17, 1000, 4096, 65_537, 1_048_576];

describe('the memory of tfjs-node', () => {
  let memory: BulkMemory;

  before(async () => {
    await setBackend('tensorflow');
    assert.equal(bulkMemoryReason(), undefined);
    memory = bulkMemory() as BulkMemory;
  });

  test('what is read has every bit of the tensors, floats of all kinds and integers', () => {
    const floats = sizes.map((size) => madeByTensorflow(bitPatterns(size)));
    const intoFloats = sizes.map((size) => new Float32Array(size));
    memory.read(floats, intoFloats);
    assertSame(
      intoFloats,
      sizes.map((size) => bitPatterns(size)),
    );

    const integers = sizes.map((size) => tf.add(tf.tensor(integersOf(size)), tf.scalar(0, 'int32')));
    const intoIntegers = sizes.map((size) => new Int32Array(size));
    memory.read(integers, intoIntegers);
    assertSame(
      intoIntegers,
      sizes.map((size) => integersOf(size)),
    );
    tf.dispose([floats, integers]);
  });

  test('tensors that are still arrays of JavaScript’s are read too', () => {
    const tensor = tf.tensor2d([1, 2, 3, 4], [2, 2]);
    const into = new Float32Array(4);
    memory.read([tensor], [into]);
    assert.deepEqual([...into], [1, 2, 3, 4]);
    tensor.dispose();
  });

  test('an array of the wrong size is rejected and nothing is kept', () => {
    const tensor = tf.ones([4]);
    assert.throws(() => memory.read([tensor], [new Float32Array(3)]), /differ in size/);
    const into = new Float32Array(4);
    memory.read([tensor], [into]);
    assert.deepEqual([...into], [1, 1, 1, 1]);
    tensor.dispose();
  });

  test('what is written into the views of taken tensors is what they are given back with', () => {
    const taken = memory.take(sizes.map((size) => tf.mul(tf.ones([size, 1]), tf.scalar(3))));
    for (const [i, view] of taken.views.entries()) {
      assert.equal(view.length, sizes[i]);
      assert.equal(view[view.length - 1], 3);
      (view as Float32Array).set(bitPatterns(view.length));
    }
    const given = taken.give();
    assert.deepEqual(
      given.map(({ shape }) => shape),
      sizes.map((size) => [size, 1]),
    );
    assertSame(
      given.map((tensor) => tensor.dataSync<'float32'>()),
      sizes.map((size) => bitPatterns(size)),
    );
    tf.dispose(given);
  });

  test('taking uses tensors up, and copies nothing that nobody else sees', () => {
    const tensor = tf.mul(tf.ones([100_000]), tf.scalar(2));
    const first = memory.take([tensor]);
    assert.equal(tensor.isDisposed, true);
    const second = memory.take(first.give());
    // The same ArrayBuffer stands for the same address.
    assert.equal(second.views[0]?.buffer, first.views[0]?.buffer);
    second.release();
  });

  for (const [how, share] of Object.entries({
    'a clone': (tensor: tf.Tensor) => tensor.clone(),
    'a reshaped one, which is another tensor on the same memory': (tensor: tf.Tensor) =>
      tensor.reshape([2, 2]),
    'a variable': (tensor: tf.Tensor) => tf.variable(tensor),
  })) {
    test(`a tensor that shares its memory with ${how} is copied`, () => {
      const tensor = tf.mul(tf.ones([4]), tf.scalar(5));
      const other = share(tensor);
      const taken = memory.take([tensor]);
      (taken.views[0] as Float32Array).fill(7);
      assert.deepEqual([...other.dataSync()], [5, 5, 5, 5]);
      const [given] = taken.give() as [tf.Tensor];
      assert.deepEqual([...given.dataSync()], [7, 7, 7, 7]);
      assert.deepEqual([...other.dataSync()], [5, 5, 5, 5]);
      tf.dispose([given, other]);
    });
  }

  test('two taken tensors that share memory come apart', () => {
    const tensor = tf.mul(tf.ones([4]), tf.scalar(5));
    const taken = memory.take([tensor, tensor.reshape([2, 2]), tensor.clone()]);
    for (const [i, view] of taken.views.entries()) (view as Float32Array).fill(i);
    const given = taken.give();
    assert.deepEqual(
      given.map((each) => each.dataSync()[3]),
      [0, 1, 2],
    );
    tf.dispose(given);
  });

  test('an array of JavaScript’s is not written', () => {
    // On a boundary of 64 bytes TensorFlow uses the array itself.
    const array = new Float32Array(new ArrayBuffer(1 << 20));
    const taken = memory.take([tf.tensor(array)]);
    (taken.views[0] as Float32Array).fill(1);
    assert.equal(array[0], 0);
    taken.release();
  });

  test('empty tensors and empty lists go through', () => {
    const empty = () => tf.zeros([0, 3]);
    memory.read([empty()], [new Float32Array(0)]);
    const taken = memory.take([empty(), tf.add(tf.ones([2]), tf.scalar(1))]);
    assert.deepEqual(
      taken.views.map(({ length }) => length),
      [0, 2],
    );
    assert.deepEqual(
      taken.give().map(({ shape }) => shape),
      [[0, 3], [2]],
    );
    memory.read([], []);
    assert.deepEqual(memory.take([]).give(), []);
  });

  test('nothing leaks: neither tensors nor TensorFlow’s memory', () => {
    const bytes = 4 << 20;
    const array = new Float32Array(bytes / 4);
    const round = () =>
      tf.tidy(() => {
        const a = tf.zeros([array.length]);
        memory.read([a], [array]);
        const [b] = memory.take([tf.add(a, tf.scalar(1))]).give() as [tf.Tensor];
        memory.take([b]).release();
        memory.take([a.clone()]).release();
      });
    for (let i = 0; i < 20; i++) round();
    const tensors = tf.memory().numTensors;
    const rss = process.memoryUsage.rss();
    for (let i = 0; i < 200; i++) round();
    assert.equal(tf.memory().numTensors, tensors);
    // One tensor per round would be 800 MB.
    assert.ok(process.memoryUsage.rss() - rss < 50 * bytes, `${(process.memoryUsage.rss() - rss) / 1e6} MB`);
  });

  test('another backend has none, and says so', async () => {
    await setBackend('cpu');
    assert.equal(bulkMemory(), undefined);
    assert.equal(bulkMemoryReason(), 'the backend is cpu');
  });
});

/** Through an operation, so that TensorFlow has allocated it. */
function madeByTensorflow(values: Float32Array): tf.Tensor {
  return tf.tidy(() => tf.reverse(tf.reverse(tf.tensor1d(values), 0), 0));
}

/** Every kind of float: ordinary, subnormal, infinite, -0 and NaNs with payloads. */
function bitPatterns(size: number): Float32Array {
  const bits = new Uint32Array(size);
  for (let i = 0; i < size; i++) bits[i] = Math.imul(i + 1, 0x9e3779b1) >>> 0;
  const special = [0x80000000, 0x7f800000, 0xff800000, 0x00000001, 0x7fc12345];
  for (const [i, pattern] of special.entries()) if (i < size) bits[size - 1 - i] = pattern;
  return new Float32Array(bits.buffer);
}

function integersOf(size: number): Int32Array {
  return Int32Array.from({ length: size }, (_, i) => Math.imul(i + 1, 0x9e3779b1));
}

function assertSame(actual: (Float32Array | Int32Array)[], expected: (Float32Array | Int32Array)[]): void {
  assert.equal(actual.length, expected.length);
  for (const [i, array] of actual.entries()) {
    const bytes = (values: Float32Array | Int32Array) =>
      Buffer.from(values.buffer, values.byteOffset, values.byteLength);
    assert.equal(Buffer.compare(bytes(array), bytes(expected[i] as Float32Array)), 0, `array ${i} differs`);
  }
}
