// Conv2DBackpropInput: the gradient of a 2D convolution for its input, and the forward pass of a transposed convolution. The
// backend's own kernel is a scalar loop. Without compiled kernels the gradient is computed as a convolution: the output's
// gradient, with rows and columns spread by the stride and padded, is convolved with the filter rotated by 180 degrees.

import type * as tf from '@tensorflow/tfjs';
import { compiledKernels } from './compiled-kernels.ts';
import {
  type Conv2DInfo,
  type Convolution,
  channelsLastOnly,
  conv2DInfo,
  extents,
  isProduct,
  type Shape4D,
  windowSize,
} from './conv2d-info.ts';
import {
  computeWithScratch,
  offsets,
  type Replacement,
  type RunKernel,
  replacement,
  sizeOf,
  withIntermediates,
} from './kernel.ts';
import { fitsWinograd, inputGradient } from './winograd.ts';

export const conv2dBackpropInput: Replacement = replacement(
  'Conv2DBackpropInput',
  ({ inputs, backend, attrs }) => {
    const { dy, filter } = inputs as { dy: tf.TensorInfo; filter: tf.TensorInfo };
    channelsLastOnly(attrs, 'Conv2DBackpropInput');
    const info = conv2DInfo(attrs, attrs['inputShape'], filter.shape);
    const compiled = compiledKernels(backend);
    if (compiled && fitsWinograd(info)) return inputGradient({ backend, compiled, info }, dy, filter);
    if (compiled) return withAnyFilter({ backend, compiled, info }, dy, filter);
    return withIntermediates(backend, (run) => {
      const spread = spreadByStride(dy, info, run);
      const top = info.filterHeight - 1 - info.padInfo.top;
      const left = info.filterWidth - 1 - info.padInfo.left;
      const [, rows, columns] = spread.shape as Shape4D;
      const bottom = info.inHeight + info.filterHeight - 1 - rows - top;
      const right = info.inWidth + info.filterWidth - 1 - columns - left;
      const x = padOrCrop(spread, [top, bottom], [left, right], run);
      const rotated = run('Reverse', { x: filter }, { dims: [0, 1] });
      const exchanged = run('Transpose', { x: rotated }, { perm: [0, 1, 3, 2] });
      const convolution = { strides: 1, pad: 'valid', dataFormat: 'NHWC', dilations: 1 };
      return run('Conv2D', { x, filter: exchanged }, convolution);
    });
  },
);

function withAnyFilter(
  { backend, compiled, info }: Convolution,
  dy: tf.TensorInfo,
  filter: tf.TensorInfo,
): tf.TensorInfo {
  const { inChannels, outChannels } = info;
  if (isProduct(info)) {
    const dx = backend.makeOutput(info.inShape, 'float32');
    const pixels = sizeOf(dy.shape) / outChannels;
    compiled.matMul(
      ...offsets(backend, dx, dy, filter),
      ...[pixels, inChannels, outChannels, outChannels, 1, 1, outChannels, compiled.scratch],
    );
    return dx;
  }
  const scratchFloats = compiled.convInputScratchFloats(windowSize(info), outChannels, inChannels);
  return computeWithScratch(backend, info.inShape, scratchFloats, (dx, scratch) =>
    compiled.convInputGradient(dx, ...offsets(backend, dy, filter), ...extents(info), scratch),
  );
}

/** Puts stride − 1 rows and columns of zeros between those of `dy`. */
function spreadByStride(dy: tf.TensorInfo, info: Conv2DInfo, run: RunKernel): tf.TensorInfo {
  const { batchSize: batch, outHeight, outWidth, outChannels, strideHeight, strideWidth } = info;
  if (strideHeight === 1 && strideWidth === 1) return dy;
  const [tall, wide] = [outHeight * strideHeight, outWidth * strideWidth];
  const rows = run('Reshape', { x: dy }, { shape: [batch * outHeight, 1, outWidth * outChannels] });
  const tallRows = padAxis(rows, 1, strideHeight - 1, run);
  const columns = run('Reshape', { x: tallRows }, { shape: [batch * tall * outWidth, 1, outChannels] });
  const wideColumns = padAxis(columns, 1, strideWidth - 1, run);
  const x = run('Reshape', { x: wideColumns }, { shape: [batch, tall, wide, outChannels] });
  const size = [batch, tall - strideHeight + 1, wide - strideWidth + 1, outChannels];
  return run('Slice', { x }, { begin: [0, 0, 0, 0], size });
}

function padAxis(x: tf.TensorInfo, axis: number, after: number, run: RunKernel): tf.TensorInfo {
  if (after === 0) return x;
  const paddings = x.shape.map((_, index) => [0, index === axis ? after : 0]);
  return run('PadV2', { x }, { paddings, constantValue: 0 });
}

/** Negative amounts remove rows or columns, which happens if the forward padding is wider than the filter. */
function padOrCrop(
  x: tf.TensorInfo,
  rows: readonly [number, number],
  columns: readonly [number, number],
  run: RunKernel,
): tf.TensorInfo {
  const all = [...rows, ...columns];
  const [top, bottom, left, right] = all.map((amount) => Math.max(0, -amount)) as Shape4D;
  const [batch, height, width, channels] = x.shape as Shape4D;
  const size = [batch, height - top - bottom, width - left - right, channels];
  const isCropped = all.some((amount) => amount < 0);
  const cropped = isCropped ? run('Slice', { x }, { begin: [0, top, left, 0], size }) : x;
  if (!all.some((amount) => amount > 0)) return cropped;
  const positive = all.map((amount) => Math.max(0, amount)) as Shape4D;
  const paddings = [[0, 0], positive.slice(0, 2), positive.slice(2), [0, 0]];
  return run('PadV2', { x: cropped }, { paddings, constantValue: 0 });
}
