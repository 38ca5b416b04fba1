// Convolutions with 'same' padding and a stride that is larger than the filter, so that no window sees the last rows or columns of
// the input. The backend (XNNPACK) rejects them silently and returns memory that was never written. With the amounts of padding
// given as numbers, which are zero on such an axis, it computes them.

import type * as tf from '@tensorflow/tfjs';
import { conv2DInfo } from './conv2d-info.ts';
import { type Kernel, type Replacement, wrapper } from './kernel.ts';

const kernelNames = ['Conv2D', 'FusedConv2D', 'DepthwiseConv2dNative', 'FusedDepthwiseConv2D'];

export const samePadding: readonly Replacement[] = kernelNames.map((kernelName) =>
  wrapper(kernelName, (original) => withExplicitPadding(original, kernelName.includes('Depthwise'))),
);

function withExplicitPadding(original: Kernel, isDepthwise: boolean): Kernel {
  return (call) => {
    const { inputs, attrs } = call;
    const { x, filter } = inputs as { x: tf.TensorInfo; filter: tf.TensorInfo };
    if (attrs['pad'] !== 'same' || attrs['dataFormat'] === 'NCHW') return original(call);
    const info = conv2DInfo(attrs, x.shape, filter.shape, {
      dilations: attrs['dilations'] ?? 1,
      isDepthwise,
    });
    const hasGap =
      (info.outHeight - 1) * info.strideHeight + info.effectiveFilterHeight < info.inHeight ||
      (info.outWidth - 1) * info.strideWidth + info.effectiveFilterWidth < info.inWidth;
    if (!hasGap) return original(call);
    const { top, bottom, left, right } = info.padInfo;
    const pad = [
      [0, 0],
      [top, bottom],
      [left, right],
      [0, 0],
    ];
    return original({ ...call, attrs: { ...attrs, pad } });
  };
}
