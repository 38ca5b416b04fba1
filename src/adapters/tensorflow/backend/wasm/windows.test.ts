// Kernels that slide a window over images, convolutions and pools, against the cpu backend's over odd shapes. For each set of
// compiled kernels that this processor has, and without (as in the threaded build).

import { describe, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import fc from 'fast-check';
import { extent, holds, kinds, sameAsCpu, seeds, some } from '../../../../../test/support/same-as-cpu.ts';
import { setBackend } from '../set-backend.ts';
import type { Attributes } from './kernel.ts';

type Sides = [before: number, after: number];
type Padding = [Sides, Sides, Sides, Sides];

const padding = (rows: Sides, columns: Sides): Padding => [[0, 0], rows, columns, [0, 0]];

await setBackend('wasm');

for (const kind of kinds()) {
  const compare = (name: string, inputs: Parameters<typeof sameAsCpu>[2], attrs: Attributes) =>
    sameAsCpu(kind, name, inputs, attrs);
  const compareTwice = (name: string, inputs: Parameters<typeof sameAsCpu>[2], attrs: Attributes) =>
    sameAsCpu(kind, name, inputs, attrs, { calls: 2 });

  describe(`${kind} kernels give what the cpu backend gives:`, () => {
    const convolution = fc
      .record({
        seed: seeds,
        batch: extent(3),
        size: fc.tuple(extent(9), extent(9)),
        channels: extent(9),
        outChannels: extent(11),
        filter: fc.tuple(extent(6), extent(6)),
        strides: fc.tuple(extent(3), extent(3)),
        // The last is wider than some filters: whole windows lie in the padding.
        pad: fc.constantFrom('same', 'valid', padding([1, 2], [0, 1]), padding([4, 3], [3, 5])),
      })
      .filter(({ pad, size, filter }) => pad !== 'valid' || (size[0] >= filter[0] && size[1] >= filter[1]))
      .filter(({ pad, size, filter }) => {
        if (typeof pad === 'string') return true;
        const [, [top, bottom], [left, right]] = pad as Padding;
        return size[0] + top + bottom >= filter[0] && size[1] + left + right >= filter[1];
      });

    const conv = (one: { strides: number[]; pad: unknown }): Attributes => ({
      strides: one.strides,
      pad: one.pad,
      dataFormat: 'NHWC',
      dilations: 1,
    });

    const outputShape = (
      inputShape: number[],
      filterShape: number[],
      attrs: Attributes,
      isDepthwise = false,
    ) =>
      tf.backend_util.computeConv2DInfo(
        inputShape as [number, number, number, number],
        filterShape as [number, number, number, number],
        attrs['strides'] as number,
        attrs['dilations'] as number,
        attrs['pad'] as 'same',
        undefined,
        isDepthwise,
      ).outShape;

    const convolutionsAreEqual = (
      seed: number,
      inputShape: number[],
      filterShape: number[],
      attrs: Attributes,
    ) => {
      const dy = some(seed, outputShape(inputShape, filterShape, attrs));
      const [x, filter] = [some(seed + 1, inputShape), some(seed + 2, filterShape)];
      compare('Conv2D', { x, filter }, attrs);
      const bias = some(seed + 3, filterShape.slice(-1));
      compare('FusedConv2D', { x, filter, bias }, { ...attrs, activation: 'linear' });
      compare('Conv2DBackpropFilter', { x, dy }, { ...attrs, filterShape });
      compare('Conv2DBackpropInput', { dy, filter }, { ...attrs, inputShape });
    };

    test('convolutions and their gradients, for any filter, stride and padding', async () => {
      await holds(150, convolution, (one) => {
        const inputShape = [one.batch, ...one.size, one.channels];
        convolutionsAreEqual(one.seed, inputShape, [...one.filter, one.channels, one.outChannels], conv(one));
      });
    });

    // Only the compiled kernels compute in blocks.
    if (kind !== 'plain')
      test('convolutions and their gradients beyond one block in every direction', () => {
        for (const [inputShape, filterShape, strides, pad] of [
          [[2, 13, 14, 18], [5, 5, 18, 9], [1, 1], 'same'],
          [[2, 11, 9, 21], [5, 5, 21, 258], [2, 1], 'same'],
          [[2, 15, 15, 23], [5, 5, 23, 5], [2, 2], 'valid'],
          [[1, 12, 11, 9], [6, 6, 9, 7], [1, 1], 'same'],
          [[1, 5, 3, 18], [1, 1, 18, 520], [1, 1], 'valid'],
        ] as const) {
          convolutionsAreEqual(1, [...inputShape], [...filterShape], conv({ strides: [...strides], pad }));
        }
      });

    test('a convolution gives the same result for a new filter and for one that was used before', () => {
      const [x, filter, bias] = [some(1, [1, 6, 5, 7]), some(2, [3, 2, 7, 12]), some(3, [12])];
      const attrs = conv({ strides: [2, 1], pad: 'same' });
      compareTwice('Conv2D', { x, filter }, attrs);
      compareTwice('FusedConv2D', { x, filter, bias }, { ...attrs, activation: 'linear' });
    });

    test('convolutions with 3 × 3 filters over many channels, and their gradients', async () => {
      const cases = fc.record({
        seed: seeds,
        size: fc.tuple(extent(14, 12), extent(14, 12)),
        channels: fc.constantFrom(16, 20, 24),
        outChannels: fc.constantFrom(16, 20, 28),
        pad: fc.constantFrom('same', 'valid', padding([1, 2], [0, 3])),
      });
      await holds(3, cases, ({ seed, size, channels, outChannels, pad }) => {
        const attrs = conv({ strides: [1, 1], pad });
        const inputShape = [3, ...size, channels];
        const filterShape = [3, 3, channels, outChannels];
        convolutionsAreEqual(seed, inputShape, filterShape, attrs);
      });
    });

    test('depthwise convolutions and their gradients', async () => {
      const cases = fc.record({ one: convolution, multiplier: extent(3) });
      await holds(50, cases, ({ one, multiplier }) => {
        const attrs = { ...conv(one), dilations: [1, 1] };
        const inputShape = [one.batch, ...one.size, one.channels];
        const filterShape = [...one.filter, one.channels, multiplier];
        const dy = some(one.seed, outputShape(inputShape, filterShape, attrs, true));
        const filter = some(one.seed + 1, filterShape);
        const x = some(one.seed + 2, inputShape);
        compare('DepthwiseConv2dNative', { x, filter }, attrs);
        compare('DepthwiseConv2dNativeBackpropFilter', { x, dy }, { ...attrs, filterShape });
        compare('DepthwiseConv2dNativeBackpropInput', { dy, filter }, { ...attrs, inputShape });
      });
    });

    test('MaxPoolGrad with equal, negative, infinite and missing values', async () => {
      const cases = convolution.filter(({ pad }) => typeof pad === 'string');
      await holds(60, cases, ({ seed, batch, size, channels, filter, strides, pad }) => {
        const shape = [batch, ...size, channels] as [number, number, number, number];
        const attrs = { filterSize: filter, strides, pad };
        const info = tf.backend_util.computePool2DInfo(shape, filter, strides, 1, pad as 'same');
        const input = some(seed, shape);
        input.values.forEach((value, i) => {
          const odd = [Number.NaN, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY][i % 17];
          input.values[i] = odd ?? Math.round(value * 3) - 2;
        });
        compare('MaxPoolGrad', { dy: some(seed + 1, info.outShape), input, output: input }, attrs);
      });
    });

    test('MaxPool3D and MaxPool3DGrad', async () => {
      const sides = fc.tuple(extent(5, 2), extent(5, 2), extent(5, 2));
      const cases = fc.record({
        seed: seeds,
        sides,
        strides: extent(2),
        pad: fc.constantFrom('same', 'valid'),
        channels: extent(5),
      });
      await holds(30, cases, ({ seed, sides, strides, pad, channels }) => {
        const shape = [2, ...sides, channels] as [number, number, number, number, number];
        const attrs = { filterSize: 2, strides, pad, dataFormat: 'NDHWC' };
        const info = tf.backend_util.computePool3DInfo(shape, 2, strides, 1, pad as 'same');
        const x = some(seed, shape);
        x.values.forEach((value, i) => {
          x.values[i] = Math.round(value * 2) - 3;
        });
        compare('MaxPool3D', { x }, attrs);
        compare('MaxPool3DGrad', { dy: some(seed + 1, info.outShape), input: x }, attrs);
      });
    });

    test('the gradients of conv3d, with strides', async () => {
      const sides = fc.tuple(extent(5, 3), extent(5, 3), extent(5, 3));
      const cases = fc.record({
        seed: seeds,
        sides,
        stride: extent(2),
        pad: fc.constantFrom('same', 'valid'),
      });
      await holds(15, cases, ({ seed, sides, stride, pad }) => {
        const inputShape = [2, ...sides, 2] as [number, number, number, number, number];
        const filterShape = [2, 3, 2, 2, 3] as [number, number, number, number, number];
        const strides = [stride, stride, stride];
        const info = tf.backend_util.computeConv3DInfo(inputShape, filterShape, stride, 1, pad as 'same');
        const dy = some(seed, info.outShape);
        const attrs = { strides, pad };
        compare('Conv3DBackpropFilterV2', { x: some(seed + 1, inputShape), dy }, { ...attrs, filterShape });
        compare(
          'Conv3DBackpropInputV2',
          { dy, filter: some(seed + 2, filterShape) },
          { ...attrs, inputShape },
        );
      });
    });

    test('windows that are not square, padded by a number', () => {
      const x = some(1, [2, 11, 9, 4]);
      for (const [height, width] of [
        [3, 2],
        [2, 3],
      ] as const) {
        for (const pad of [0, 1]) {
          const attrs = { strides: 1, pad, dataFormat: 'NHWC', dilations: 1 };
          const fused = { ...attrs, activation: 'relu' };
          const filter = some(2, [height, width, 4, 5]);
          const depthwise = some(3, [height, width, 4, 1]);
          compare('Conv2D', { x, filter }, attrs);
          compare('FusedConv2D', { x, filter, bias: some(4, [5]) }, fused);
          compare('DepthwiseConv2dNative', { x, filter: depthwise }, attrs);
          compare('FusedDepthwiseConv2D', { x, filter: depthwise }, fused);
          for (const pool of ['MaxPool', 'AvgPool']) {
            compare(pool, { x }, { filterSize: [height, width], strides: 1, pad });
          }
        }
      }
    });
  });
}
