// Convolutions and pools with windows that are not square, padded by a number ('same' and 'valid' are not concerned).
// TensorFlow.js takes the window's height for its width when it computes the shape of the result; the backend does not,
// and writes past its end. The cpu backend computes what TensorFlow.js means.

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
