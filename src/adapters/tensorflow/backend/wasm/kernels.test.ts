// Each replaced kernel against the cpu backend's over odd shapes. For each set of compiled kernels that this processor has,
// and without (as in the threaded build). Convolutions and pools are in windows.test.ts.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import fc from 'fast-check';
import {
  extent,
  holds,
  kinds,
  sameAsCpu,
  seeds,
  some,
  theBackend,
  withoutCompiled,
} from '../../../../../test/support/same-as-cpu.ts';
import { setBackend } from '../set-backend.ts';
import { compiledKernels } from './compiled-kernels.ts';
import type { Attributes } from './kernel.ts';

await setBackend('wasm');
assert.ok(compiledKernels(theBackend()), 'the compiled kernels are there');
assert.equal(compiledKernels(withoutCompiled(theBackend())), undefined);

for (const kind of kinds()) {
  const compare = (name: string, inputs: Parameters<typeof sameAsCpu>[2], attrs: Attributes) =>
    sameAsCpu(kind, name, inputs, attrs);

  describe(`${kind} kernels give what the cpu backend gives:`, () => {
    const operands = fc.record({
      seed: seeds,
      rows: extent(21),
      inner: fc.oneof(extent(30), extent(300, 200)),
      columns: extent(21),
      batches: fc.constantFrom(
        [[], []],
        [[1], [1]],
        [[3], [3]],
        [
          [2, 2],
          [2, 2],
        ],
        [[3], [1]],
        [[1], [2]],
        [[], [1]],
        [[1], [1, 1]],
        [[3], [1, 1]],
        [[1, 1], [2]],
      ),
      transposeA: fc.boolean(),
      transposeB: fc.boolean(),
    });

    test('BatchMatMul', async () => {
      await holds(60, operands, ({ seed, rows, inner, columns, batches, transposeA, transposeB }) => {
        const [left, right] = batches as unknown as [number[], number[]];
        const a = some(seed, [...left, ...(transposeA ? [inner, rows] : [rows, inner])]);
        const b = some(seed + 1, [...right, ...(transposeB ? [columns, inner] : [inner, columns])]);
        compare('BatchMatMul', { a, b }, { transposeA, transposeB });
      });
    });

    test('BatchMatMul beyond one block in every direction', () => {
      for (const [transposeA, transposeB] of [
        [false, true],
        [true, false],
      ] as const) {
        const a = some(1, transposeA ? [520, 390] : [390, 520]);
        const b = some(2, transposeB ? [517, 520] : [520, 517]);
        compare('BatchMatMul', { a, b }, { transposeA, transposeB });
      }
    });

    test('_FusedMatMul with bias and activation', async () => {
      const activation = fc.constantFrom('linear', 'relu', 'relu6', 'elu', 'sigmoid', 'leakyrelu');
      const cases = fc.record({ operands, activation, hasBias: fc.boolean() });
      await holds(40, cases, ({ operands: one, activation, hasBias }) => {
        const { seed, rows, inner, columns, transposeA, transposeB } = one;
        const batch = one.batches[0]?.length === 1 ? [3] : [1];
        const a = some(seed, [...batch, ...(transposeA ? [inner, rows] : [rows, inner])]);
        const b = some(seed + 1, [...batch, ...(transposeB ? [columns, inner] : [inner, columns])]);
        const bias = hasBias ? some(seed + 2, [columns]) : undefined;
        compare('_FusedMatMul', { a, b, bias }, { transposeA, transposeB, activation, leakyreluAlpha: 0.3 });
      });
    });

    test('UnsortedSegmentSum, with numbers out of range', async () => {
      const cases = fc.record({
        seed: seeds,
        rows: extent(40),
        width: fc.array(extent(5), { maxLength: 2 }),
        count: extent(6),
      });
      await holds(30, cases, ({ seed, rows, width, count }) => {
        const ids = some(seed, [rows]).values;
        const segmentIds = {
          shape: [rows],
          values: Int32Array.from(ids, (value) => Math.floor(value * 5) + 1),
        };
        compare(
          'UnsortedSegmentSum',
          { x: some(seed + 1, [rows, ...width]), segmentIds },
          { numSegments: count },
        );
      });
    });

    test('Sum over leading axes', async () => {
      const cases = fc.record({
        seed: seeds,
        shape: fc.array(extent(12), { minLength: 2, maxLength: 4 }),
        keepDims: fc.boolean(),
      });
      await holds(40, cases, ({ seed, shape, keepDims }) => {
        for (let count = 1; count <= shape.length; count++) {
          const axis = shape.slice(0, count).map((_, i) => i);
          compare('Sum', { x: some(seed, shape) }, { axis, keepDims });
        }
      });
    });
  });
}

test('ResizeNearestNeighborGrad is the adjoint of the resizing', async () => {
  const cases = fc.record({
    seed: seeds,
    from: fc.tuple(extent(5), extent(5)),
    to: fc.tuple(extent(9), extent(9)),
    aligned: fc.boolean(),
  });
  await holds(40, cases, ({ seed, from, to, aligned }) => {
    tf.tidy(() => {
      const x = tf.tensor(some(seed, [2, ...from, 3]).values, [2, ...from, 3]) as tf.Tensor4D;
      const dy = tf.tensor(some(seed + 1, [2, ...to, 3]).values, [2, ...to, 3]);
      const resized = (image: tf.Tensor4D) =>
        tf.image.resizeNearestNeighbor(image, to, aligned).mul(dy).sum();
      const along = tf
        .grad((image) => resized(image as tf.Tensor4D))(x)
        .mul(x)
        .sum()
        .dataSync()[0] as number;
      const expected = resized(x).dataSync()[0] as number;
      assert.ok(Math.abs(along - expected) < 1e-3, `${along}, expected ${expected}`);
    });
  });
});

test('a clone outlives its original and shares its memory', () => {
  const backend = theBackend();
  const original = tf.tensor1d([1, 2, 3]);
  const clone = tf.clone(original);
  assert.equal(backend.getMemoryOffset(clone.dataId), backend.getMemoryOffset(original.dataId));
  original.dispose();
  assert.deepEqual([...clone.dataSync()], [1, 2, 3]);
  clone.dispose();
});

test('a cast to bool tests for zero', () => {
  tf.tidy(() => {
    assert.deepEqual([...tf.tensor1d([0.5, 0, -1, 256, -0]).cast('bool').dataSync()], [1, 0, 1, 1, 0]);
    assert.deepEqual([...tf.tensor1d([3, 0, -1], 'int32').cast('bool').dataSync()], [1, 0, 1]);
    assert.deepEqual([...tf.tensor1d([1.7, -1.7]).cast('int32').dataSync()], [1, -1]);
  });
});

test('tensors of another backend keep their values, whatever array holds them', async () => {
  await tf.setBackend('cpu');
  const labels = tf.oneHot([1, 0, 1], 2).toFloat(); // the cpu backend would keep it as an Int32Array
  const x = tf.tensor4d([-1, -2, -3, -4], [1, 2, 2, 1]);
  await tf.setBackend('wasm');
  assert.deepEqual([...labels.dataSync()], [0, 1, 1, 0, 0, 1]);
  assert.deepEqual([...labels.mul(2).dataSync()], [0, 2, 2, 0, 0, 2]);
  const gradient = tf.grad((image) => tf.maxPool(image as tf.Tensor4D, 2, 2, 'valid').sum())(x);
  assert.deepEqual([...gradient.dataSync()], [1, 0, 0, 0]);
  tf.dispose([labels, x, gradient]);
});
