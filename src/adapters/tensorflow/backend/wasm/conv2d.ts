// Conv2D and FusedConv2D. The backend's own kernels (XNNPACK) are good, except for three kinds of convolutions. For 3 × 3 filters
// over many channels, Winograd's algorithm needs fewer multiplications. For very few output channels, XNNPACK uses only a part of
// each vector. And XNNPACK packs each new filter, which is slow, and keeps it for the next call. This suits inference, but in
// training each step has new filters. So our kernel computes a large filter the first time, and XNNPACK if it is used again.

import type * as tf from '@tensorflow/tfjs';
import { type Conv2DInfo, type Convolution, conv2DInfo, extents, windowSize } from './conv2d-info.ts';
import {
  computeWithScratch,
  type Kernel,
  type KernelCall,
  offsets,
  type Replacement,
  sizeOf,
  wrapper,
} from './kernel.ts';
import { nativeKernels } from './native-kernels.ts';
import { convolve, fitsWinograd } from './winograd.ts';

export const conv2d: Replacement = wrapper('Conv2D', (original) => withOurs(original, () => true));

export const fusedConv2d: Replacement = wrapper('FusedConv2D', (original) =>
  withOurs(original, ({ inputs, attrs }) => {
    const activation = attrs['activation'] ?? 'linear';
    return activation === 'linear' && !inputs['preluActivationWeights'];
  }),
);

/** Our kernels for convolutions that they are good at, if `isSupported`, and `original` for others. */
function withOurs(original: Kernel, isSupported: (call: KernelCall) => boolean): Kernel {
  const seen = new WeakSet<object>();
  return (call) => {
    const { inputs, backend, attrs } = call;
    const { x, filter } = inputs as { x: tf.TensorInfo; filter: tf.TensorInfo };
    const native = nativeKernels(backend);
    if (!native || attrs['dataFormat'] === 'NCHW' || !isSupported(call)) return original(call);
    const info = conv2DInfo(attrs, x.shape, filter.shape, { dilations: attrs['dilations'] });
    if (info.dilationHeight !== 1 || info.dilationWidth !== 1) return original(call);
    const convolution = { backend, native, info };
    const isKnown = seen.has(filter.dataId);
    seen.add(filter.dataId);
    if (fitsWinograd(info)) return withBias(convolution, convolve(convolution, x, filter), inputs['bias']);
    if (!hasFewOutputs(info) && (isKnown || !isLargeFilter(info))) return original(call);
    return withBias(convolution, withAnyFilter(convolution, x, filter), inputs['bias']);
  };
}

function hasFewOutputs({ outChannels }: Conv2DInfo): boolean {
  return outChannels < 4;
}

/** Whether packing the filter takes XNNPACK longer than gathering the windows takes our kernel. */
function isLargeFilter({ batchSize, outHeight, outWidth, outChannels }: Conv2DInfo): boolean {
  return batchSize * outHeight * outWidth <= 16 * outChannels;
}

function withAnyFilter(
  { backend, native, info }: Convolution,
  x: tf.TensorInfo,
  filter: tf.TensorInfo,
): tf.TensorInfo {
  const scratchFloats = native.convScratchFloats(windowSize(info), info.outChannels);
  return computeWithScratch(backend, info.outShape, scratchFloats, (output, scratch) =>
    native.convolution(output, ...offsets(backend, x, filter), ...extents(info), scratch),
  );
}

function withBias(
  { backend, native, info }: Convolution,
  output: tf.TensorInfo,
  bias: tf.TensorInfo | undefined,
): tf.TensorInfo {
  const pixels = sizeOf(info.outShape) / info.outChannels;
  if (bias) native.addToRows(...offsets(backend, output, bias), pixels, info.outChannels);
  return output;
}
