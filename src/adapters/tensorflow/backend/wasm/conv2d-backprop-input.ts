// Conv2DBackpropInput: the gradient of a 2D convolution for its input, and the whole of a transposed convolution.
// The backend's own is a plain loop. It is a convolution of the output's gradient, its rows and columns drawn apart
// by the stride and padded, with the filter turned by 180 degrees.

import type * as tf from '@tensorflow/tfjs';
import { type Conv2DInfo, channelsLastOnly, conv2DInfo, type Shape4D } from './conv2d-info.ts';
import { type Replacement, type RunKernel, replacement, withIntermediates } from './kernel.ts';
import { nativeKernels } from './native-kernels.ts';
import { fitsWinograd, inputGradient } from './winograd.ts';

export const conv2dBackpropInput: Replacement = replacement(
  'Conv2DBackpropInput',
  ({ inputs, backend, attrs }) => {
    const { dy, filter } = inputs as { dy: tf.TensorInfo; filter: tf.TensorInfo };
    channelsLastOnly(attrs, 'Conv2DBackpropInput');
    const info = conv2DInfo(attrs, attrs['inputShape'], filter.shape);
    const native = nativeKernels(backend);
    if (native && fitsWinograd(info)) return inputGradient({ backend, native, info }, dy, filter);
    return withIntermediates(backend, (run) => {
      const drawnApart = drawApart(dy, info, run);
      const top = info.filterHeight - 1 - info.padInfo.top;
      const left = info.filterWidth - 1 - info.padInfo.left;
      const [, rows, columns] = drawnApart.shape as Shape4D;
      const bottom = info.inHeight + info.filterHeight - 1 - rows - top;
      const right = info.inWidth + info.filterWidth - 1 - columns - left;
      const x = padOrCrop(drawnApart, [top, bottom], [left, right], run);
      const turned = run('Reverse', { x: filter }, { dims: [0, 1] });
      const exchanged = run('Transpose', { x: turned }, { perm: [0, 1, 3, 2] });
      const convolution = { strides: 1, pad: 'valid', dataFormat: 'NHWC', dilations: 1 };
      return run('Conv2D', { x, filter: exchanged }, convolution);
    });
  },
);

/** Puts stride − 1 rows and columns of zeros between those of `dy`. */
function drawApart(dy: tf.TensorInfo, info: Conv2DInfo, run: RunKernel): tf.TensorInfo {
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

/** Negative amounts take rows or columns away: the forward padding was wider than the filter. */
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
