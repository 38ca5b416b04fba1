// Conv2D and FusedConv2D. The kernels of the addon compute all of them. Compared with our WASM kernels, the backend's own (XNNPACK)
// are good, except for three kinds of convolutions. For 3 × 3 filters over many channels, Winograd's algorithm needs fewer
// multiplications. For very few output channels, XNNPACK uses only a part of each vector. And XNNPACK packs each new filter, which is
// slow, and keeps it for the next call. This suits inference, but in training each step has new filters. So our kernel computes a large
// filter the first time, and XNNPACK if it is used again.

import type * as tf from '@tensorflow/tfjs';
import { finish } from './activation.ts';
import { compiledKernels } from './compiled-kernels.ts';
import {
  type Conv2DInfo,
  type Convolution,
  conv2DInfo,
  extents,
  isProduct,
  windowSize,
} from './conv2d-info.ts';
import { computeWithScratch, type Kernel, offsets, type Replacement, sizeOf, wrapper } from './kernel.ts';
import { convolve, fitsWinograd } from './winograd.ts';

export const conv2d: Replacement = wrapper('Conv2D', withOurs);
export const fusedConv2d: Replacement = wrapper('FusedConv2D', withOurs);

/** Our kernels for convolutions that they are good at, and `original` for others. */
function withOurs(original: Kernel): Kernel {
  const seen = new WeakSet<object>();
  return (call) => {
    const { inputs, backend, attrs } = call;
    const { x, filter } = inputs as { x: tf.TensorInfo; filter: tf.TensorInfo };
    const compiled = compiledKernels(backend);
    if (!compiled || attrs['dataFormat'] === 'NCHW') return original(call);
    const info = conv2DInfo(attrs, x.shape, filter.shape, { dilations: attrs['dilations'] });
    if (compiled.set !== 'wasm')
      return finish(backend, compute({ backend, compiled, info }, x, filter), inputs, attrs);
    const isLinear = (attrs['activation'] ?? 'linear') === 'linear' && !inputs['preluActivationWeights'];
    if (!isLinear || info.dilationHeight !== 1 || info.dilationWidth !== 1) return original(call);
    const isKnown = seen.has(filter.dataId);
    seen.add(filter.dataId);
    const isOurs = fitsWinograd(info) || hasFewOutputs(info) || (!isKnown && isLargeFilter(info));
    if (!isOurs) return original(call);
    return finish(backend, compute({ backend, compiled, info }, x, filter), inputs, attrs);
  };
}

function compute(convolution: Convolution, x: tf.TensorInfo, filter: tf.TensorInfo): tf.TensorInfo {
  const { backend, compiled, info } = convolution;
  if (fitsWinograd(info)) return convolve(convolution, x, filter);
  if (!isProduct(info)) return withAnyFilter(convolution, x, filter);
  const output = backend.makeOutput(info.outShape, 'float32');
  const { inChannels, outChannels } = info;
  compiled.matMul(
    ...offsets(backend, output, x, filter),
    ...[sizeOf(info.outShape) / outChannels, outChannels, inChannels, inChannels, 1, outChannels, 1],
    compiled.scratch,
  );
  return output;
}

function hasFewOutputs({ outChannels }: Conv2DInfo): boolean {
  return outChannels < 4;
}

/** Whether packing the filter takes XNNPACK longer than gathering the windows takes our kernel. */
function isLargeFilter({ batchSize, outHeight, outWidth, outChannels }: Conv2DInfo): boolean {
  return batchSize * outHeight * outWidth <= 16 * outChannels;
}

function withAnyFilter(
  { backend, compiled, info }: Convolution,
  x: tf.TensorInfo,
  filter: tf.TensorInfo,
): tf.TensorInfo {
  const scratchFloats = compiled.convScratchFloats(windowSize(info), info.outChannels);
  return computeWithScratch(backend, info.outShape, scratchFloats, (output, scratch) =>
    compiled.convolution(
      ...[output, ...offsets(backend, x, filter), ...extents(info)],
      ...[info.dilationHeight, info.dilationWidth, scratch],
    ),
  );
}
