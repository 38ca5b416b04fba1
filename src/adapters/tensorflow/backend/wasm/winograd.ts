// Convolutions with 3 × 3 filters and stride 1, and their gradients, by the native kernels of native/wasm/winograd.c.

import type * as tf from '@tensorflow/tfjs';
import { offsets, type WasmBackend } from './kernel.ts';
import type { NativeKernels } from './native-kernels.ts';

type Info = tf.backend_util.Conv2DInfo;

/** Below these the transforms cost more than the multiplications they save. */
const leastChannels = 16;
const leastPixels = 256;

export function fitsWinograd(info: Info): boolean {
  return (
    info.filterHeight === 3 &&
    info.filterWidth === 3 &&
    [info.strideHeight, info.strideWidth, info.dilationHeight, info.dilationWidth].every(
      (one) => one === 1,
    ) &&
    [info.inChannels, info.outChannels].every((count) => count % 4 === 0 && count >= leastChannels) &&
    info.batchSize * info.outHeight * info.outWidth >= leastPixels &&
    info.dataFormat === 'channelsLast'
  );
}

export function convolve(
  backend: WasmBackend,
  native: NativeKernels,
  x: tf.TensorInfo,
  filter: tf.TensorInfo,
  info: Info,
): tf.TensorInfo {
  const { top, left } = info.padInfo;
  const output = backend.makeOutput(info.outShape, 'float32');
  withScratch(backend, native, info.inChannels, info.outChannels, (scratch) => {
    native.winogradConvolution(
      ...offsets(backend, output, x, filter),
      ...[info.batchSize, info.inHeight, info.inWidth, info.inChannels],
      ...[info.outHeight, info.outWidth, info.outChannels, top, left, 0, scratch],
    );
  });
  return output;
}

/** The convolution of `dy` with the filter turned: what was padded by 1 is padded by 2 − 1. */
export function inputGradient(
  backend: WasmBackend,
  native: NativeKernels,
  dy: tf.TensorInfo,
  filter: tf.TensorInfo,
  info: Info,
): tf.TensorInfo {
  const { top, left } = info.padInfo;
  const output = backend.makeOutput(info.inShape, 'float32');
  withScratch(backend, native, info.outChannels, info.inChannels, (scratch) => {
    native.winogradConvolution(
      ...offsets(backend, output, dy, filter),
      ...[info.batchSize, info.outHeight, info.outWidth, info.outChannels],
      ...[info.inHeight, info.inWidth, info.inChannels, 2 - top, 2 - left, 1, scratch],
    );
  });
  return output;
}

export function filterGradient(
  backend: WasmBackend,
  native: NativeKernels,
  x: tf.TensorInfo,
  dy: tf.TensorInfo,
  info: Info,
): tf.TensorInfo {
  const { top, left } = info.padInfo;
  const output = backend.makeOutput(info.filterShape, 'float32');
  withScratch(backend, native, info.inChannels, info.outChannels, (scratch) => {
    native.winogradFilterGradient(
      ...offsets(backend, output, x, dy),
      ...[info.batchSize, info.inHeight, info.inWidth, info.inChannels],
      ...[info.outHeight, info.outWidth, info.outChannels, top, left, scratch],
    );
  });
  return output;
}

function withScratch(
  backend: WasmBackend,
  native: NativeKernels,
  channels: number,
  outChannels: number,
  body: (scratch: number) => void,
): void {
  const scratch = backend.makeOutput([native.winogradScratchFloats(channels, outChannels)], 'float32');
  try {
    body(backend.getMemoryOffset(scratch.dataId));
  } finally {
    backend.disposeData(scratch.dataId);
  }
}
