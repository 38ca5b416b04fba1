// The geometry of 2D convolutions, as the kernels need it.

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../../../errors.ts';
import type { Attributes } from './kernel.ts';

export type Shape4D = [number, number, number, number];
export type Conv2DInfo = tf.backend_util.Conv2DInfo;

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

export function channelsLastOnly({ dataFormat }: Attributes, kernelName: string): void {
  if (dataFormat !== 'NCHW' && dataFormat !== 'channelsFirst') return;
  throw new HorovodError(
    'ERR_HVD_UNSUPPORTED',
    `${kernelName} on the wasm backend: channels-first data (NCHW) is not supported; use dataFormat 'channelsLast'.`,
  );
}
