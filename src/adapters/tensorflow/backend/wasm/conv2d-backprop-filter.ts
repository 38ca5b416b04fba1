// Conv2DBackpropFilter, the gradient of a 2D convolution for its filter. The backend has no such kernel. The gradient is the
// product of the input's windows with the output's gradient. Without compiled kernels it is computed as a convolution: the input,
// with channels and batch swapped, is convolved with the output's gradient, dilated by the stride.

import type * as tf from '@tensorflow/tfjs';
import { compiledKernels } from './compiled-kernels.ts';
import {
  type Conv2DInfo,
  type Convolution,
  channelsLastOnly,
  conv2DInfo,
  extents,
  type Shape4D,
  windowSize,
} from './conv2d-info.ts';
import {
  computeWithScratch,
  offsets,
  type Replacement,
  type RunKernel,
  replacement,
  withIntermediates,
} from './kernel.ts';
import { filterGradient, fitsWinograd } from './winograd.ts';

export const conv2dBackpropFilter: Replacement = replacement(
  'Conv2DBackpropFilter',
  ({ inputs, backend, attrs }) => {
    const { x, dy } = inputs as { x: tf.TensorInfo; dy: tf.TensorInfo };
    channelsLastOnly(attrs, 'Conv2DBackpropFilter');
    const info = conv2DInfo(attrs, x.shape, attrs['filterShape']);
    const compiled = compiledKernels(backend);
    if (compiled && fitsWinograd(info)) return filterGradient({ backend, compiled, info }, x, dy);
    if (compiled) return withAnyFilter({ backend, compiled, info }, x, dy);
    return withIntermediates(backend, (run) => {
      const channelsFirst = run('Transpose', { x: fitToWindows(x, info, run) }, { perm: [3, 1, 2, 0] });
      const filter = run('Transpose', { x: dy }, { perm: [1, 2, 0, 3] });
      const dilations = [info.strideHeight, info.strideWidth];
      const convolution = { strides: 1, pad: 'valid', dataFormat: 'NHWC', dilations };
      const dw = run('Conv2D', { x: channelsFirst, filter }, convolution);
      return run('Transpose', { x: dw }, { perm: [1, 2, 0, 3] });
    });
  },
);

function withAnyFilter(
  { backend, compiled, info }: Convolution,
  x: tf.TensorInfo,
  dy: tf.TensorInfo,
): tf.TensorInfo {
  const scratchFloats = compiled.convFilterScratchFloats(windowSize(info), info.outChannels);
  return computeWithScratch(backend, info.filterShape, scratchFloats, (dw, scratch) =>
    compiled.convFilterGradient(dw, ...offsets(backend, x, dy), ...extents(info), scratch),
  );
}

/** Pads the input, and removes the rows and columns that no window reaches. */
function fitToWindows(x: tf.TensorInfo, info: Conv2DInfo, run: RunKernel): tf.TensorInfo {
  const { top, bottom, left, right } = info.padInfo;
  const [batch, , , channels] = x.shape as Shape4D;
  const paddings = [
    [0, 0],
    [top, bottom],
    [left, right],
    [0, 0],
  ];
  const isPadded = top > 0 || bottom > 0 || left > 0 || right > 0;
  const padded = isPadded ? run('PadV2', { x }, { paddings, constantValue: 0 }) : x;
  const height = (info.outHeight - 1) * info.strideHeight + info.filterHeight;
  const width = (info.outWidth - 1) * info.strideWidth + info.filterWidth;
  if (padded.shape[1] === height && padded.shape[2] === width) return padded;
  return run('Slice', { x: padded }, { begin: [0, 0, 0, 0], size: [batch, height, width, channels] });
}
