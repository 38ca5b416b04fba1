// The gradients of a depthwise convolution, for its filter and for its input; the backend lacks both. Without native
// kernels the cpu backend computes them.

import * as tf from '@tensorflow/tfjs';
import { onCpu } from './cpu-fallback.ts';
import { type KernelCall, offsets, type Replacement } from './kernel.ts';
import { nativeKernels } from './native-kernels.ts';

type Shape4D = [number, number, number, number];

export const depthwiseBackpropFilter: Replacement = {
  kernelName: 'DepthwiseConv2dNativeBackpropFilter',
  make: () => (call) => {
    const { inputs, backend, attrs } = call;
    const { x, dy } = inputs as { x: tf.TensorInfo; dy: tf.TensorInfo };
    const native = nativeKernels(backend);
    if (!native) return onCpu('DepthwiseConv2dNativeBackpropFilter')(call);
    const info = describe(x.shape, attrs['filterShape'] as Shape4D, call);
    const dw = backend.makeOutput(info.filterShape, 'float32');
    native.depthwiseFilterGradient(...offsets(backend, dw, x, dy), ...extents(info));
    return dw;
  },
};

export const depthwiseBackpropInput: Replacement = {
  kernelName: 'DepthwiseConv2dNativeBackpropInput',
  make: () => (call) => {
    const { inputs, backend, attrs } = call;
    const { filter, dy } = inputs as { filter: tf.TensorInfo; dy: tf.TensorInfo };
    const native = nativeKernels(backend);
    if (!native) return onCpu('DepthwiseConv2dNativeBackpropInput')(call);
    const info = describe(attrs['inputShape'] as Shape4D, filter.shape, call);
    const dx = backend.makeOutput(info.inShape, 'float32');
    native.depthwiseInputGradient(...offsets(backend, dx, filter, dy), ...extents(info));
    return dx;
  },
};

function describe(
  inputShape: readonly number[],
  filterShape: readonly number[],
  { attrs }: KernelCall,
): tf.backend_util.Conv2DInfo {
  return tf.backend_util.computeConv2DInfo(
    inputShape as Shape4D,
    filterShape as Shape4D,
    attrs['strides'] as number,
    attrs['dilations'] as number,
    attrs['pad'] as 'same',
    attrs['dimRoundingMode'] as 'floor',
    true,
  );
}

function extents(info: tf.backend_util.Conv2DInfo): number[] {
  return [
    ...[info.batchSize, info.inHeight, info.inWidth, info.inChannels, info.outChannels / info.inChannels],
    ...[info.outHeight, info.outWidth, info.filterHeight, info.filterWidth],
    ...[info.strideHeight, info.strideWidth, info.dilationHeight, info.dilationWidth],
    ...[info.padInfo.top, info.padInfo.left],
  ];
}
