// Convolutions and pools with windows that are not square and with a number as padding ('same' and 'valid' are not affected).
// TensorFlow.js computes the shape of the result with the window's height as its width. The backend uses the real width and
// writes past the end of the result. The cpu backend computes a result of the expected shape.

import type * as tf from '@tensorflow/tfjs';
import { onCpu } from './cpu-fallback.ts';
import { type KernelCall, type Replacement, wrapper } from './kernel.ts';

const kernelNames = [
  'Conv2D',
  'FusedConv2D',
  'DepthwiseConv2dNative',
  'FusedDepthwiseConv2D',
  'MaxPool',
  'AvgPool',
];

export const unevenWindows: readonly Replacement[] = kernelNames.map((kernelName) =>
  wrapper(kernelName, (original) => (call) => (isUneven(call) ? onCpu(kernelName)(call) : original(call))),
);

function isUneven({ inputs, attrs }: KernelCall): boolean {
  if (typeof attrs['pad'] !== 'number') return false;
  const extents = (inputs['filter'] as tf.TensorInfo | undefined)?.shape ?? attrs['filterSize'];
  return Array.isArray(extents) && extents[0] !== extents[1];
}
