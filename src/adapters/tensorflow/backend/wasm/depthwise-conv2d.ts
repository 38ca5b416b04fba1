// Depthwise convolutions and their gradients for the filter and for the input. The backend has neither gradient; without compiled
// kernels the cpu backend computes them. The forward pass is XNNPACK's, unless there are the kernels of the addon.

import type * as tf from '@tensorflow/tfjs';
import { finish } from './activation.ts';
import { compiledKernels, nativeKernels } from './compiled-kernels.ts';
import { type Conv2DInfo, conv2DInfo } from './conv2d-info.ts';
import { onCpu } from './cpu-fallback.ts';
import { type Kernel, offsets, type Replacement, replacement, wrapper } from './kernel.ts';

export const depthwiseConv2d: readonly Replacement[] = ['DepthwiseConv2dNative', 'FusedDepthwiseConv2D'].map(
  (name) => wrapper(name, withNative),
);

function withNative(original: Kernel): Kernel {
  return (call) => {
    const { inputs, backend, attrs } = call;
    const { x, filter } = inputs as { x: tf.TensorInfo; filter: tf.TensorInfo };
    const native = nativeKernels(backend);
    if (!native || attrs['dataFormat'] === 'NCHW') return original(call);
    const info = conv2DInfo(attrs, x.shape, filter.shape, {
      dilations: attrs['dilations'] ?? 1,
      isDepthwise: true,
    });
    const output = backend.makeOutput(info.outShape, 'float32');
    native.depthwiseConvolution(...offsets(backend, output, x, filter), ...extents(info));
    return finish(backend, output, inputs, attrs);
  };
}

export const depthwiseBackpropFilter: Replacement = replacement(
  'DepthwiseConv2dNativeBackpropFilter',
  (call) => {
    const { inputs, backend, attrs } = call;
    const { x, dy } = inputs as { x: tf.TensorInfo; dy: tf.TensorInfo };
    const compiled = compiledKernels(backend);
    if (!compiled) return onCpu('DepthwiseConv2dNativeBackpropFilter')(call);
    const info = conv2DInfo(attrs, x.shape, attrs['filterShape'], {
      dilations: attrs['dilations'],
      isDepthwise: true,
    });
    const dw = backend.makeOutput(info.filterShape, 'float32');
    compiled.depthwiseFilterGradient(...offsets(backend, dw, x, dy), ...extents(info));
    return dw;
  },
);

export const depthwiseBackpropInput: Replacement = replacement(
  'DepthwiseConv2dNativeBackpropInput',
  (call) => {
    const { inputs, backend, attrs } = call;
    const { filter, dy } = inputs as { filter: tf.TensorInfo; dy: tf.TensorInfo };
    const compiled = compiledKernels(backend);
    if (!compiled) return onCpu('DepthwiseConv2dNativeBackpropInput')(call);
    const info = conv2DInfo(attrs, attrs['inputShape'], filter.shape, {
      dilations: attrs['dilations'],
      isDepthwise: true,
    });
    const dx = backend.makeOutput(info.inShape, 'float32');
    compiled.depthwiseInputGradient(...offsets(backend, dx, filter, dy), ...extents(info));
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
