// Convolutions with 3 × 3 filters and stride 1, and their gradients, by the kernels of native/wasm/winograd.c.

import type * as tf from '@tensorflow/tfjs';
import type { Conv2DInfo, Convolution } from './conv2d-info.ts';
import { computeWithScratch, offsets } from './kernel.ts';

/** Below these limits the transforms cost more than the multiplications that they save. */
const minChannels = 16;
const minPixels = 256;

export function fitsWinograd(info: Conv2DInfo): boolean {
  return (
    info.filterHeight === 3 &&
    info.filterWidth === 3 &&
    [info.strideHeight, info.strideWidth, info.dilationHeight, info.dilationWidth].every(
      (one) => one === 1,
    ) &&
    [info.inChannels, info.outChannels].every((count) => count % 4 === 0 && count >= minChannels) &&
    info.batchSize * info.outHeight * info.outWidth >= minPixels &&
    info.dataFormat === 'channelsLast'
  );
}

export function convolve(
  { backend, compiled, info }: Convolution,
  x: tf.TensorInfo,
  filter: tf.TensorInfo,
): tf.TensorInfo {
  const { top, left } = info.padInfo;
  const scratchFloats = compiled.winogradScratchFloats(info.inChannels, info.outChannels);
  return computeWithScratch(backend, info.outShape, scratchFloats, (output, scratch) =>
    compiled.winogradConvolution(
      ...[output, ...offsets(backend, x, filter)],
      ...[info.batchSize, info.inHeight, info.inWidth, info.inChannels],
      ...[info.outHeight, info.outWidth, info.outChannels, top, left, 0, scratch],
    ),
  );
}

/** The convolution of `dy` with the rotated filter. A padding of p becomes 2 − p. */
export function inputGradient(
  { backend, compiled, info }: Convolution,
  dy: tf.TensorInfo,
  filter: tf.TensorInfo,
): tf.TensorInfo {
  const { top, left } = info.padInfo;
  const scratchFloats = compiled.winogradScratchFloats(info.outChannels, info.inChannels);
  return computeWithScratch(backend, info.inShape, scratchFloats, (output, scratch) =>
    compiled.winogradConvolution(
      ...[output, ...offsets(backend, dy, filter)],
      ...[info.batchSize, info.outHeight, info.outWidth, info.outChannels],
      ...[info.inHeight, info.inWidth, info.inChannels, 2 - top, 2 - left, 1, scratch],
    ),
  );
}

export function filterGradient(
  { backend, compiled, info }: Convolution,
  x: tf.TensorInfo,
  dy: tf.TensorInfo,
): tf.TensorInfo {
  const { top, left } = info.padInfo;
  const scratchFloats = compiled.winogradScratchFloats(info.inChannels, info.outChannels);
  return computeWithScratch(backend, info.filterShape, scratchFloats, (output, scratch) =>
    compiled.winogradFilterGradient(
      ...[output, ...offsets(backend, x, dy)],
      ...[info.batchSize, info.inHeight, info.inWidth, info.inChannels],
      ...[info.outHeight, info.outWidth, info.outChannels, top, left, scratch],
    ),
  );
}
