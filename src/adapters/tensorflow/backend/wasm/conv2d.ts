// Conv2D. The backend's own (XNNPACK) is good; for 3 × 3 filters over many channels Winograd's way needs fewer
// multiplications.

import type * as tf from '@tensorflow/tfjs';
import { conv2DInfo } from './conv2d-info.ts';
import { type Replacement, wrapper } from './kernel.ts';
import { nativeKernels } from './native-kernels.ts';
import { convolve, fitsWinograd } from './winograd.ts';

export const conv2d: Replacement = wrapper('Conv2D', (original) => (call) => {
  const { inputs, backend, attrs } = call;
  const { x, filter } = inputs as { x: tf.TensorInfo; filter: tf.TensorInfo };
  const native = nativeKernels(backend);
  if (!native || attrs['dataFormat'] === 'NCHW') return original(call);
  const info = conv2DInfo(attrs, x.shape, filter.shape, { dilations: attrs['dilations'] });
  return fitsWinograd(info) ? convolve({ backend, native, info }, x, filter) : original(call);
});
