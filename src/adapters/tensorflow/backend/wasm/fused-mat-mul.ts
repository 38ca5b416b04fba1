// _FusedMatMul: matrix product, bias and activation in one kernel. If an operand is transposed or batched, the backend's own
// kernel adds the bias once for every 48 elements of the inner dimension; in these cases, and with the kernels of the addon, the product
// is computed first and finished in place.

import type * as tf from '@tensorflow/tfjs';
import { finish } from './activation.ts';
import { nativeKernels } from './compiled-kernels.ts';
import { type KernelCall, type Replacement, sizeOf, withIntermediates, wrapper } from './kernel.ts';

export const fusedMatMul: Replacement = wrapper(
  '_FusedMatMul',
  (original) => (call) => (isPlain(call) && !nativeKernels(call.backend) ? original(call) : unfused(call)),
);

function isPlain({ inputs, attrs }: KernelCall): boolean {
  const { a, b } = inputs as { a: tf.TensorInfo; b: tf.TensorInfo };
  const isBatched = sizeOf(a.shape.slice(0, -2)) !== 1 || sizeOf(b.shape.slice(0, -2)) !== 1;
  return !attrs['transposeA'] && !attrs['transposeB'] && !isBatched;
}

function unfused({ inputs, attrs, backend }: KernelCall): tf.TensorInfo {
  const { a, b } = inputs as { a: tf.TensorInfo; b: tf.TensorInfo };
  const { transposeA, transposeB } = attrs as { transposeA: boolean; transposeB: boolean };
  const product = withIntermediates(backend, (run) =>
    run('BatchMatMul', { a, b }, { transposeA, transposeB }),
  );
  return finish(backend, product, inputs, attrs);
}
