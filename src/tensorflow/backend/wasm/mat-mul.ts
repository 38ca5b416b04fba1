// BatchMatMul. The backend's own multiplies by XNNPACK only what is neither transposed nor batched and falls to a
// scalar loop otherwise, which is all of a dense layer's backpropagation; so transposed operands are transposed first.

import type * as tf from '@tensorflow/tfjs';
import { type Replacement, type RunKernel, withIntermediates } from './kernel.ts';

export const matMul: Replacement = {
  kernelName: 'BatchMatMul',
  make: (original) => (call) => {
    if (original === undefined) throw new Error('BatchMatMul is missing');
    const { inputs, backend, attrs } = call;
    const { a, b } = inputs as { a: tf.TensorInfo; b: tf.TensorInfo };
    const { transposeA, transposeB } = attrs as { transposeA: boolean; transposeB: boolean };
    if (a.dtype !== 'float32' || b.dtype !== 'float32' || !(transposeA || transposeB)) return original(call);
    return withIntermediates(backend, (run) => {
      const left = transposeA ? swapLastAxes(a, run) : a;
      const right = transposeB ? swapLastAxes(b, run) : b;
      const plain = { transposeA: false, transposeB: false };
      return original({ inputs: { a: left, b: right }, backend, attrs: plain }) as tf.TensorInfo;
    });
  },
};

function swapLastAxes(x: tf.TensorInfo, run: RunKernel): tf.TensorInfo {
  const perm = x.shape.map((_, axis) => axis);
  perm.push(...perm.splice(-2).reverse());
  return run('Transpose', { x }, { perm });
}
