// Sum over the leading axes, which is the gradient of every bias. The backend's own kernel transposes its input first.

import * as tf from '@tensorflow/tfjs';
import { compiledKernels } from './compiled-kernels.ts';
import { offsets, type Replacement, sizeOf, wrapper } from './kernel.ts';

export const sum: Replacement = wrapper('Sum', (original) => (call) => {
  const { inputs, backend, attrs } = call;
  const x = inputs['x'] as tf.TensorInfo;
  const { axis, keepDims } = attrs as { axis?: number | number[] | null; keepDims?: boolean };
  const axes = tf.util.parseAxisParam(axis ?? x.shape.map((_, i) => i), x.shape).sort((a, b) => a - b);
  const isLeading = axes.length < x.shape.length && axes.every((one, i) => one === i);
  const columns = sizeOf(x.shape.slice(axes.length));
  const compiled =
    x.dtype === 'float32' && isLeading && axes.length > 0 && columns >= 4 && compiledKernels(backend);
  if (!compiled) return original(call);
  const rest = x.shape.slice(axes.length);
  const output = backend.makeOutput(keepDims ? [...axes.map(() => 1), ...rest] : rest, 'float32');
  compiled.sumRows(...offsets(backend, output, x), sizeOf(x.shape.slice(0, axes.length)), columns);
  return output;
});
