// Conv2D. The backend's own (XNNPACK) is good; for 3 × 3 filters over many channels Winograd's way needs fewer
// multiplications.

import * as tf from '@tensorflow/tfjs';
import type { Replacement } from './kernel.ts';
import { nativeKernels } from './native-kernels.ts';
import { convolve, fitsWinograd } from './winograd.ts';

type Shape4D = [number, number, number, number];

export const conv2d: Replacement = {
  kernelName: 'Conv2D',
  make: (original) => (call) => {
    if (original === undefined) throw new Error('Conv2D is missing');
    const { inputs, backend, attrs } = call;
    const { x, filter } = inputs as { x: tf.TensorInfo; filter: tf.TensorInfo };
    const native = nativeKernels(backend);
    if (!native || attrs['dataFormat'] === 'NCHW') return original(call);
    const info = tf.backend_util.computeConv2DInfo(
      x.shape as Shape4D,
      filter.shape as Shape4D,
      attrs['strides'] as number,
      attrs['dilations'] as number,
      attrs['pad'] as 'same',
      attrs['dimRoundingMode'] as 'floor',
    );
    return fitsWinograd(info) ? convolve(backend, native, x, filter, info) : original(call);
  },
};
