// The gradients of a depthwise convolution for its filter and for its input. The backend has neither. Without native kernels the
// cpu backend computes them.

import type * as tf from '@tensorflow/tfjs';
import { type Conv2DInfo, conv2DInfo } from './conv2d-info.ts';
import { onCpu } from './cpu-fallback.ts';
import { offsets, type Replacement, replacement } from './kernel.ts';
import { nativeKernels } from './native-kernels.ts';

export const depthwiseBackpropFilter: Replacement = replacement(
  'DepthwiseConv2dNativeBackpropFilter',
  (call) => {
    const { inputs, backend, attrs } = call;
    const { x, dy } = inputs as { x: tf.TensorInfo; dy: tf.TensorInfo };
    const native = nativeKernels(backend);
    if (!native) return onCpu('DepthwiseConv2dNativeBackpropFilter')(call);
    const info = conv2DInfo(attrs, x.shape, attrs['filterShape'], {
      dilations: attrs['dilations'],
      isDepthwise: true,
    });
    const dw = backend.makeOutput(info.filterShape, 'float32');
    native.depthwiseFilterGradient(...offsets(backend, dw, x, dy), ...extents(info));
    return dw;
  },
);

export const depthwiseBackpropInput: Replacement = replacement(
  'DepthwiseConv2dNativeBackpropInput',
  (call) => {
    const { inputs, backend, attrs } = call;
    const { filter, dy } = inputs as { filter: tf.TensorInfo; dy: tf.TensorInfo };
    const native = nativeKernels(backend);
    if (!native) return onCpu('DepthwiseConv2dNativeBackpropInput')(call);
    const info = conv2DInfo(attrs, attrs['inputShape'], filter.shape, {
      dilations: attrs['dilations'],
      isDepthwise: true,
    });
    const dx = backend.makeOutput(info.inShape, 'float32');
    native.depthwiseInputGradient(...offsets(backend, dx, filter, dy), ...extents(info));
    return dx;
  },
);

function extents(info: Conv2DInfo): number[] {
  return [
    ...[info.batchSize, info.inHeight, info.inWidth, info.inChannels, info.outChannels / info.inChannels],
    ...[info.outHeight, info.outWidth, info.filterHeight, info.filterWidth],
    ...[info.strideHeight, info.strideWidth, info.dilationHeight, info.dilationWidth],
    ...[info.padInfo.top, info.padInfo.left],
  ];
}
