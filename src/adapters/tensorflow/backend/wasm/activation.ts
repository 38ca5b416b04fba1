// Bias and activation, which fused kernels add to a product or convolution.

import type * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../../../errors.ts';
import { type CompiledKernels, compiledKernels } from './compiled-kernels.ts';
import {
  type Attributes,
  offsets,
  type RunKernel,
  sizeOf,
  type WasmBackend,
  withIntermediates,
} from './kernel.ts';

/** As the compiled kernel finishRows counts them. */
const inPlace: Readonly<Record<string, number>> = { linear: 0, relu: 1, relu6: 2, leakyrelu: 3 };
const otherKernels: Readonly<Record<string, string>> = { elu: 'Elu', sigmoid: 'Sigmoid' };

interface Finish {
  readonly bias?: tf.TensorInfo | undefined;
  readonly preluActivationWeights?: tf.TensorInfo | undefined;
}

/** The activation of `x` + bias, in the memory of `x` if possible; else `x` is released. */
export function finish(
  backend: WasmBackend,
  x: tf.TensorInfo,
  { bias, preluActivationWeights }: Finish,
  attrs: Attributes,
): tf.TensorInfo {
  const { activation, slope } = activationOf(attrs);
  const compiled = compiledKernels(backend);
  const columns = x.shape.at(-1) ?? 1;
  const isRow = bias === undefined || (bias.dtype === 'float32' && sizeOf(bias.shape) === columns);
  const code = inPlace[activation];
  if (compiled && isRow) {
    if (bias || (code ?? 0) > 0) addBias(backend, compiled, x, bias, code ?? 0, slope);
    if (code !== undefined) return x;
    return releasing(backend, x, (run) => activate(x, activation, run, preluActivationWeights));
  }
  return releasing(backend, x, (run) => {
    const sum = bias ? run('Add', { a: x, b: bias }) : x;
    return activate(sum, activation, run, preluActivationWeights, slope);
  });
}

function addBias(
  backend: WasmBackend,
  compiled: CompiledKernels,
  x: tf.TensorInfo,
  bias: tf.TensorInfo | undefined,
  code: number,
  slope: number,
): void {
  const columns = x.shape.at(-1) ?? 1;
  const [to, row] = offsets(backend, x, bias ?? x) as [number, number];
  compiled.finishRows(to, row, sizeOf(x.shape) / Math.max(1, columns), columns, bias ? 1 : 0, code, slope);
}

function releasing(
  backend: WasmBackend,
  x: tf.TensorInfo,
  body: (run: RunKernel) => tf.TensorInfo,
): tf.TensorInfo {
  const result = withIntermediates(backend, body);
  if (result !== x) backend.disposeData(x.dataId);
  return result;
}

function activationOf(attrs: Attributes): { activation: string; slope: number } {
  return {
    activation: (attrs['activation'] as string | null | undefined) ?? 'linear',
    slope: (attrs['leakyreluAlpha'] as number | null | undefined) ?? 0.2,
  };
}

function activate(
  x: tf.TensorInfo,
  activation: string,
  run: RunKernel,
  alpha: tf.TensorInfo | undefined,
  slope = 0.2,
): tf.TensorInfo {
  const kernelName = otherKernels[activation];
  if (activation === 'linear') return x;
  if (activation === 'relu') return run('Relu', { x });
  if (activation === 'relu6') return run('Relu6', { x });
  if (kernelName !== undefined) return run(kernelName, { x });
  if (activation === 'prelu' && alpha) return run('Prelu', { x, alpha });
  if (activation === 'leakyrelu') return run('LeakyRelu', { x }, { alpha: slope });
  throw new HorovodError(
    'ERR_HVD_UNSUPPORTED',
    `A fused kernel of the wasm backend: the activation "${activation}" is not supported; apply it after the operation.`,
  );
}
