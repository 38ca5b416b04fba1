// MaxPool, AvgPool and AvgPoolGrad by the kernels of the addon; without it, the backend's own are good. MaxPoolGrad is in max-pool.ts.

import * as tf from '@tensorflow/tfjs';
import { type CompiledKernels, nativeKernels } from './compiled-kernels.ts';
import { type Attributes, offsets, type Replacement, wrapper } from './kernel.ts';

export const pools: readonly Replacement[] = [
  pool('MaxPool', 'x', 'forward', ({ maxPool }) => maxPool),
  pool('AvgPool', 'x', 'forward', ({ averagePool }) => averagePool),
  pool('AvgPoolGrad', 'dy', 'gradient', ({ averagePoolGradient }) => averagePoolGradient),
];

function pool(
  kernelName: string,
  source: 'x' | 'dy',
  direction: 'forward' | 'gradient',
  kernelOf: (kernels: CompiledKernels) => (...values: number[]) => void,
): Replacement {
  return wrapper(kernelName, (original) => (call) => {
    const { inputs, attrs, backend } = call;
    const native = nativeKernels(backend);
    const from = inputs[source] as tf.TensorInfo;
    if (!native || from.dtype !== 'float32') return original(call);
    const image = direction === 'forward' ? from : (inputs['input'] as tf.TensorInfo);
    const info = poolInfo(image, attrs);
    const output = backend.makeOutput(direction === 'forward' ? info.outShape : info.inShape, 'float32');
    kernelOf(native)(
      ...offsets(backend, output, from),
      ...[info.batchSize, info.inHeight, info.inWidth, info.inChannels, info.outHeight, info.outWidth],
      ...[info.effectiveFilterHeight, info.effectiveFilterWidth, info.strideHeight, info.strideWidth],
      ...[info.padInfo.top, info.padInfo.left],
    );
    return output;
  });
}

function poolInfo({ shape }: tf.TensorInfo, attrs: Attributes): tf.backend_util.Conv2DInfo {
  return tf.backend_util.computePool2DInfo(
    shape as [number, number, number, number],
    attrs['filterSize'] as number,
    attrs['strides'] as number,
    1,
    attrs['pad'] as 'same',
    attrs['dimRoundingMode'] as 'floor',
  );
}
