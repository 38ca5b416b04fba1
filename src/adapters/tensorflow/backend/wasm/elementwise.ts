// Add, for a bias, and Relu with its gradient, by the kernels of the addon. In training, TensorFlow.js does not fuse them with a product or
// convolution, so in a CNN they pass over all activations. The gradient of Relu is one kernel of its own instead of a step function and
// a product.

import * as tf from '@tensorflow/tfjs';
import { nativeKernels } from './compiled-kernels.ts';
import {
  type KernelCall,
  offsets,
  type Replacement,
  replacement,
  sizeOf,
  type WasmBackend,
  wrapper,
} from './kernel.ts';

const reluGradientKernel = 'HorovodReluGrad';

const addBias: Replacement = wrapper('Add', (original) => (call) => {
  const { inputs, backend } = call;
  const { a, b } = inputs as { a: tf.TensorInfo; b: tf.TensorInfo };
  const native = isRowOf(b, a) ? nativeKernels(backend) : undefined;
  if (!native) return original(call);
  const output = backend.makeOutput(a.shape, 'float32');
  const columns = sizeOf(b.shape);
  native.addRow(...offsets(backend, output, a, b), sizeOf(a.shape) / columns, columns);
  return output;
});

const relu: Replacement = wrapper('Relu', (original) => (call) => {
  const { inputs, backend } = call;
  const x = inputs['x'] as tf.TensorInfo;
  const native = x.dtype === 'float32' ? nativeKernels(backend) : undefined;
  if (!native) return original(call);
  const output = backend.makeOutput(x.shape, 'float32');
  native.reluOf(...offsets(backend, output, x), sizeOf(x.shape));
  return output;
});

const reluGradient: Replacement = replacement(reluGradientKernel, ({ inputs, backend }: KernelCall) => {
  const { dy, x } = inputs as { dy: tf.TensorInfo; x: tf.TensorInfo };
  const output = backend.makeOutput(x.shape, 'float32');
  nativeKernels(backend)?.reluGradient(...offsets(backend, output, dy, x), sizeOf(x.shape));
  return output;
});

export const elementwise: readonly Replacement[] = [addBias, relu, reluGradient];

/** Call it once; on other backends, and without the addon, the gradient of TensorFlow.js stays. */
export function installReluGradient(): void {
  const original = tf.getGradient('Relu');
  tf.unregisterGradient('Relu');
  tf.registerGradient({
    ...original,
    gradFunc: (dy, saved, attrs) => {
      const [x] = saved as [tf.Tensor];
      if (Array.isArray(dy) || !canUse(dy, x)) return original.gradFunc(dy, saved, attrs);
      return { x: () => gradientOf(dy, x) };
    },
  });
  // For gradients of gradients.
  tf.registerGradient({
    kernelName: reluGradientKernel,
    inputsToSave: ['x'],
    gradFunc: (ddx, saved) => {
      const [x] = saved as [tf.Tensor];
      return { dy: () => tf.mul(ddx as tf.Tensor, tf.step(x)), x: () => tf.zerosLike(x) };
    },
  });
}

function gradientOf(dy: tf.Tensor, x: tf.Tensor): tf.Tensor {
  return tf.engine().runKernel(reluGradientKernel, { dy, x }) as tf.Tensor;
}

function canUse(dy: tf.Tensor, x: tf.Tensor): boolean {
  if (tf.getBackend() !== 'wasm' || dy.dtype !== 'float32' || x.dtype !== 'float32') return false;
  return nativeKernels(tf.backend() as unknown as WasmBackend) !== undefined;
}

/** Whether `b` is added to each of several rows of `a`. */
function isRowOf(b: tf.TensorInfo, a: tf.TensorInfo): boolean {
  const rank = b.shape.length;
  if (a.dtype !== 'float32' || b.dtype !== 'float32' || rank === 0 || rank >= a.shape.length) return false;
  return sizeOf(a.shape) > 0 && b.shape.every((extent, i) => extent === a.shape[a.shape.length - rank + i]);
}
