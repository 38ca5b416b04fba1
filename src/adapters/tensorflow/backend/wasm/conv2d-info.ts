// The geometry of 2D convolutions, as the kernels need it.

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../../../errors.ts';
import type { CompiledKernels } from './compiled-kernels.ts';
import type { Attributes, WasmBackend } from './kernel.ts';

export type Shape4D = [number, number, number, number];
export type Conv2DInfo = tf.backend_util.Conv2DInfo;

/** Where a convolution is computed, and its geometry. */
export interface Convolution {
  readonly backend: WasmBackend;
  readonly compiled: CompiledKernels;
  readonly info: Conv2DInfo;
}

export function conv2DInfo(
  attrs: Attributes,
  inputShape: unknown,
  filterShape: unknown,
  { dilations = 1, isDepthwise = false }: { dilations?: unknown; isDepthwise?: boolean } = {},
): Conv2DInfo {
  return tf.backend_util.computeConv2DInfo(
    inputShape as Shape4D,
    filterShape as Shape4D,
    attrs['strides'] as number,
    dilations as number,
    attrs['pad'] as 'same',
    attrs['dimRoundingMode'] as 'floor',
    isDepthwise,
  );
}

/** The geometry as the compiled kernels of the gradients take it. */
export function extents({ padInfo, ...info }: Conv2DInfo): number[] {
  return [
    ...[info.batchSize, info.inHeight, info.inWidth, info.inChannels],
    ...[info.outHeight, info.outWidth, info.outChannels, info.filterHeight, info.filterWidth],
    ...[info.strideHeight, info.strideWidth, padInfo.top, padInfo.left],
  ];
}

/** The floats of the input that one pixel of the output is computed from, over all its channels. */
export function windowSize({ filterHeight, filterWidth, inChannels }: Conv2DInfo): number {
  return filterHeight * filterWidth * inChannels;
}

/** Whether the convolution is a matrix product of pixels and channels. */
export function isProduct(info: Conv2DInfo): boolean {
  const { filterHeight, filterWidth, strideHeight, strideWidth, padInfo } = info;
  const { top, bottom, left, right } = padInfo;
  return (
    [filterHeight, filterWidth, strideHeight, strideWidth].every((one) => one === 1) &&
    [top, bottom, left, right].every((one) => one === 0)
  );
}

export function channelsLastOnly({ dataFormat }: Attributes, kernelName: string): void {
  if (dataFormat !== 'NCHW' && dataFormat !== 'channelsFirst') return;
  throw new HorovodError(
    'ERR_HVD_UNSUPPORTED',
    `${kernelName} on the wasm backend: channels-first data (NCHW) is not supported; use dataFormat 'channelsLast'.`,
  );
}
