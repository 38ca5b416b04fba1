// Convolutions with 3 × 3 filters and stride 1, and their gradients, by the kernels of native/wasm/winograd.c.

import type * as tf from '@tensorflow/tfjs';
import { offsets, type WasmBackend } from './kernel.ts';
import type { NativeKernels } from './native-kernels.ts';

type Info = tf.backend_util.Conv2DInfo;

/** Below these the transforms cost more than the multiplications they save. */
const minChannels = 16;
const minPixels = 256;

export function fitsWinograd(info: Info): boolean {
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

/** Where a convolution is computed, and its geometry. */
export interface Convolution {
  readonly backend: WasmBackend;
  readonly native: NativeKernels;
  readonly info: Info;
}

export function convolve(convolution: Convolution, x: tf.TensorInfo, filter: tf.TensorInfo): tf.TensorInfo {
  const { backend, native, info } = convolution;
  const { top, left } = info.padInfo;
  return compute(convolution, info.outShape, [info.inChannels, info.outChannels], (output, scratch) =>
    native.winogradConvolution(
      ...offsets(backend, output, x, filter),
      ...[info.batchSize, info.inHeight, info.inWidth, info.inChannels],
      ...[info.outHeight, info.outWidth, info.outChannels, top, left, 0, scratch],
    ),
  );
}

/** The convolution of `dy` with the filter turned: a padding of p becomes 2 − p. */
export function inputGradient(
  convolution: Convolution,
  dy: tf.TensorInfo,
  filter: tf.TensorInfo,
): tf.TensorInfo {
  const { backend, native, info } = convolution;
  const { top, left } = info.padInfo;
  return compute(convolution, info.inShape, [info.outChannels, info.inChannels], (output, scratch) =>
    native.winogradConvolution(
      ...offsets(backend, output, dy, filter),
      ...[info.batchSize, info.outHeight, info.outWidth, info.outChannels],
      ...[info.inHeight, info.inWidth, info.inChannels, 2 - top, 2 - left, 1, scratch],
    ),
  );
}

export function filterGradient(convolution: Convolution, x: tf.TensorInfo, dy: tf.TensorInfo): tf.TensorInfo {
  const { backend, native, info } = convolution;
  const { top, left } = info.padInfo;
  return compute(convolution, info.filterShape, [info.inChannels, info.outChannels], (output, scratch) =>
    native.winogradFilterGradient(
      ...offsets(backend, output, x, dy),
      ...[info.batchSize, info.inHeight, info.inWidth, info.inChannels],
      ...[info.outHeight, info.outWidth, info.outChannels, top, left, scratch],
    ),
  );
}

/** A new tensor, filled by `body` with the help of scratch memory for so many channels in and out. */
function compute(
  { backend, native }: Convolution,
  shape: readonly number[],
  channels: readonly [number, number],
  body: (output: tf.TensorInfo, scratch: number) => void,
): tf.TensorInfo {
  const output = backend.makeOutput(shape, 'float32');
  const scratch = backend.makeOutput([native.winogradScratchFloats(...channels)], 'float32');
  try {
    body(output, backend.getMemoryOffset(scratch.dataId));
  } finally {
    backend.disposeData(scratch.dataId);
  }
  return output;
}
