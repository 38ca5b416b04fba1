// Max pooling and its gradients. The backend's MaxPoolGrad, MaxPool3D and MaxPool3DGrad start their search at the smallest
// positive number, so they give wrong results for windows with only negative values. The gradient of a window goes to its
// largest value. Among equal values it goes to the first in two dimensions and to the last in three, as on the cpu backend.

import * as tf from '@tensorflow/tfjs';
import { type CompiledKernels, compiledKernels } from './compiled-kernels.ts';
import { floats, type KernelCall, makeZeros, offsets, type Replacement, replacement } from './kernel.ts';

export const maxPoolGrad: Replacement = replacement('MaxPoolGrad', (call) => {
  const windows = windows2D(call);
  const compiled = compiledKernels(call.backend);
  return compiled ? compiledGradient(call, windows, compiled) : gradient(call, windows, 'first');
});

export const maxPool3D: Replacement = replacement('MaxPool3D', (call) => {
  const { backend, inputs } = call;
  const windows = windows3D(call, 'x');
  const x = inputs['x'] as tf.TensorInfo;
  const output = backend.makeOutput(windows.outShape, 'float32');
  const [y, values] = floats(backend, output, x);
  eachLargest(values, windows, 'last', (largest, index) => {
    y[index] = largest < 0 ? Number.NEGATIVE_INFINITY : (values[largest] as number);
  });
  return output;
});

export const maxPool3DGrad: Replacement = replacement('MaxPool3DGrad', (call) =>
  gradient(call, windows3D(call, 'input'), 'last'),
);

/** Pooling windows over [batch, depth, height, width, channels]. Two-dimensional pooling has a depth of 1. */
interface Windows {
  readonly batch: number;
  readonly channels: number;
  readonly input: Axes;
  readonly output: Axes;
  readonly filter: Axes;
  readonly dilation: Axes;
  readonly stride: Axes;
  readonly before: Axes;
  readonly outShape: readonly number[];
}

type Axes = readonly [depth: number, height: number, width: number];

function windows2D({ inputs, attrs }: KernelCall): Windows {
  return windowsOf(
    tf.backend_util.computePool2DInfo(
      (inputs['input'] as tf.TensorInfo).shape as [number, number, number, number],
      attrs['filterSize'] as number,
      attrs['strides'] as number,
      1,
      attrs['pad'] as 'same',
      attrs['dimRoundingMode'] as 'floor',
    ),
  );
}

function windows3D({ inputs, attrs }: KernelCall, name: string): Windows {
  return windowsOf(
    tf.backend_util.computePool3DInfo(
      (inputs[name] as tf.TensorInfo).shape as [number, number, number, number, number],
      attrs['filterSize'] as number,
      attrs['strides'] as number,
      1,
      attrs['pad'] as 'same',
      attrs['dimRoundingMode'] as 'floor',
      attrs['dataFormat'] as 'NDHWC',
    ),
  );
}

function windowsOf(info: tf.backend_util.Conv2DInfo | tf.backend_util.Conv3DInfo): Windows {
  const flat = { inDepth: 1, outDepth: 1, effectiveFilterDepth: 1, dilationDepth: 1, strideDepth: 1 };
  const all = { ...flat, ...info, padInfo: { front: 0, ...info.padInfo } };
  return {
    batch: all.batchSize,
    channels: all.inChannels,
    input: [all.inDepth, all.inHeight, all.inWidth],
    output: [all.outDepth, all.outHeight, all.outWidth],
    filter: [all.effectiveFilterDepth, all.effectiveFilterHeight, all.effectiveFilterWidth],
    dilation: [all.dilationDepth, all.dilationHeight, all.dilationWidth],
    stride: [all.strideDepth, all.strideHeight, all.strideWidth],
    before: [all.padInfo.front, all.padInfo.top, all.padInfo.left],
    outShape: all.outShape,
  };
}

function compiledGradient(
  { backend, inputs }: KernelCall,
  { batch, channels, input: extents, output: outExtents, filter, stride, before }: Windows,
  compiled: CompiledKernels,
): tf.TensorInfo {
  const { dy, input } = inputs as { dy: tf.TensorInfo; input: tf.TensorInfo };
  const output = backend.makeOutput(input.shape, 'float32');
  const [, ...inPlane] = extents;
  const [, ...outPlane] = outExtents;
  compiled.maxPoolGradient(
    ...offsets(backend, output, input, dy),
    ...[batch, ...inPlane, channels, ...outPlane],
    ...[filter, stride, before].flatMap(([, rows, columns]) => [rows, columns]),
  );
  return output;
}

function gradient({ backend, inputs }: KernelCall, windows: Windows, among: 'first' | 'last'): tf.TensorInfo {
  const { dy, input } = inputs as { dy: tf.TensorInfo; input: tf.TensorInfo };
  const output = makeZeros(backend, input.shape);
  const [dx, x, g] = floats(backend, output, input, dy);
  eachLargest(x, windows, among, (largest, index) => {
    if (largest >= 0) dx[largest] = (dx[largest] as number) + (g[index] as number);
  });
  return output;
}

/** Calls `visit` for each window with the index of its largest value (-1 if all are NaN) and the index of the window. */
function eachLargest(
  x: Float32Array,
  windows: Windows,
  among: 'first' | 'last',
  visit: (largest: number, index: number) => void,
): void {
  const { batch, channels, input, output, filter, dilation, stride, before } = windows;
  const [inDepth, inHeight, inWidth] = input;
  const [outDepth, outHeight, outWidth] = output;
  let index = 0;
  for (let n = 0; n < batch; n++) {
    for (let depth = 0; depth < outDepth; depth++) {
      const zs = range(depth * stride[0] - before[0], filter[0], dilation[0], inDepth);
      for (let row = 0; row < outHeight; row++) {
        const ys = range(row * stride[1] - before[1], filter[1], dilation[1], inHeight);
        for (let column = 0; column < outWidth; column++) {
          const xs = range(column * stride[2] - before[2], filter[2], dilation[2], inWidth);
          for (let channel = 0; channel < channels; channel++, index++) {
            let best = Number.NEGATIVE_INFINITY;
            let largest = -1;
            for (const z of zs) {
              for (const y of ys) {
                const line = ((n * inDepth + z) * inHeight + y) * inWidth;
                for (const w of xs) {
                  const at = (line + w) * channels + channel;
                  const value = x[at] as number;
                  if (value > best || (among === 'last' && value === best)) {
                    best = value;
                    largest = at;
                  }
                }
              }
            }
            visit(largest, index);
          }
        }
      }
    }
  }
}

/** The positions of a window along one axis that lie inside the input. */
function range(corner: number, extent: number, step: number, size: number): number[] {
  const places: number[] = [];
  for (let place = corner; place < Math.min(size, corner + extent); place += step) {
    if (place >= 0) places.push(place);
  }
  return places;
}
