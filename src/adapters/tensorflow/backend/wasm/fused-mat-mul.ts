// _FusedMatMul: matrix product, bias and activation in one kernel. If an operand is transposed or batched, the backend's own
// kernel adds the bias once for every 48 elements of the inner dimension; in these cases the three run one after the other.

import type * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../../../errors.ts';
import {
  type KernelCall,
  type Replacement,
  type RunKernel,
  sizeOf,
  withIntermediates,
  wrapper,
} from './kernel.ts';

export const fusedMatMul: Replacement = wrapper(
  '_FusedMatMul',
  (original) => (call) => (isPlain(call) ? original(call) : unfused(call)),
);

function isPlain({ inputs, attrs }: KernelCall): boolean {
  const { a, b } = inputs as { a: tf.TensorInfo; b: tf.TensorInfo };
  const isBatched = sizeOf(a.shape.slice(0, -2)) !== 1 || sizeOf(b.shape.slice(0, -2)) !== 1;
  return !attrs['transposeA'] && !attrs['transposeB'] && !isBatched;
}

function unfused({ inputs, attrs, backend }: KernelCall): tf.TensorInfo {
  const { a, b, bias, preluActivationWeights } = inputs as {
    a: tf.TensorInfo;
    b: tf.TensorInfo;
    bias?: tf.TensorInfo;
    preluActivationWeights?: tf.TensorInfo;
  };
  const { transposeA, transposeB, activation, leakyreluAlpha } = attrs as {
    transposeA: boolean;
    transposeB: boolean;
    activation?: string | null;
    leakyreluAlpha?: number;
  };
  return withIntermediates(backend, (run) => {
    const product = run('BatchMatMul', { a, b }, { transposeA, transposeB });
    const sum = bias ? run('Add', { a: product, b: bias }) : product;
    return activate(sum, activation ?? 'linear', run, preluActivationWeights, leakyreluAlpha);
  });
}

const activationKernels: Readonly<Record<string, string>> = {
  relu: 'Relu',
  relu6: 'Relu6',
  elu: 'Elu',
  sigmoid: 'Sigmoid',
};

function activate(
  x: tf.TensorInfo,
  activation: string,
  run: RunKernel,
  alpha: tf.TensorInfo | undefined,
  leakyreluAlpha: number | undefined,
): tf.TensorInfo {
  const kernelName = activationKernels[activation];
  if (activation === 'linear') return x;
  if (kernelName !== undefined) return run(kernelName, { x });
  if (activation === 'prelu' && alpha) return run('Prelu', { x, alpha });
  if (activation === 'leakyrelu') return run('LeakyRelu', { x }, { alpha: leakyreluAlpha ?? 0.2 });
  throw new HorovodError(
    'ERR_HVD_UNSUPPORTED',
    `tf.fused.matMul on the wasm backend: the activation "${activation}" is not supported; apply it after the product.`,
  );
}
