// Each replaced kernel against the cpu backend's over odd shapes, called as other kernels call it: with TensorInfos.
// Twice: with the native kernels and without (as in the threaded build).

import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import fc from 'fast-check';
import { setBackend } from '../set-backend.ts';
import type { Attributes, Kernel, WasmBackend, WasmModule } from './kernel.ts';
import { floats } from './kernel.ts';
import { nativeKernels } from './native-kernels.ts';

type Values = Float32Array | Int32Array;

interface Input {
  readonly shape: readonly number[];
  readonly values: Values;
}

const seed = fc.integer({ min: 1, max: 2 ** 30 });
const extent = (max: number, min = 1) => fc.integer({ min, max });

/** One set of kernels, `runs` random cases. */
async function holds<T>(runs: number, cases: fc.Arbitrary<T>, check: (value: T) => void): Promise<void> {
  fc.assert(fc.property(cases, check), { numRuns: runs, seed: 20260801 });
}

before(async () => {
  await setBackend('wasm');
  assert.ok(nativeKernels(theBackend()), 'the native kernels are there');
  assert.equal(nativeKernels(withoutNative(theBackend())), undefined);
});

for (const kind of ['native', 'plain'] as const) {
  const compare = (
    name: string,
    inputs: Record<string, Input | undefined>,
    attrs: Attributes,
    tolerance?: number,
  ) => sameAsCpu(kind, name, inputs, attrs, tolerance);

  describe(`${kind} kernels give what the cpu backend gives:`, () => {
    const operands = fc.record({
      seed,
      rows: extent(21),
      inner: fc.oneof(extent(30), extent(300, 200)),
      columns: extent(21),
      batches: fc.constantFrom(
        [[], []],
        [[1], [1]],
        [[3], [3]],
        [
          [2, 2],
          [2, 2],
        ],
        [[3], [1]],
        [[1], [2]],
        [[], [1]],
        [[1], [1, 1]],
        [[3], [1, 1]],
        [[1, 1], [2]],
      ),
      transposeA: fc.boolean(),
      transposeB: fc.boolean(),
    });

    test('BatchMatMul', async () => {
      await holds(60, operands, ({ seed, rows, inner, columns, batches, transposeA, transposeB }) => {
        const [left, right] = batches as unknown as [number[], number[]];
        const a = some(seed, [...left, ...(transposeA ? [inner, rows] : [rows, inner])]);
        const b = some(seed + 1, [...right, ...(transposeB ? [columns, inner] : [inner, columns])]);
        compare('BatchMatMul', { a, b }, { transposeA, transposeB });
      });
    });

    test('BatchMatMul beyond one block in every direction', () => {
      for (const [transposeA, transposeB] of [
        [false, true],
        [true, false],
      ] as const) {
        const a = some(1, transposeA ? [520, 390] : [390, 520]);
        const b = some(2, transposeB ? [517, 520] : [520, 517]);
        compare('BatchMatMul', { a, b }, { transposeA, transposeB });
      }
    });

    test('_FusedMatMul with bias and activation', async () => {
      const activation = fc.constantFrom('linear', 'relu', 'relu6', 'elu', 'sigmoid', 'leakyrelu');
      const cases = fc.record({ operands, activation, hasBias: fc.boolean() });
      await holds(40, cases, ({ operands: one, activation, hasBias }) => {
        const { seed, rows, inner, columns, transposeA, transposeB } = one;
        const batch = one.batches[0]?.length === 1 ? [3] : [1];
        const a = some(seed, [...batch, ...(transposeA ? [inner, rows] : [rows, inner])]);
        const b = some(seed + 1, [...batch, ...(transposeB ? [columns, inner] : [inner, columns])]);
        const bias = hasBias ? some(seed + 2, [columns]) : undefined;
        compare('_FusedMatMul', { a, b, bias }, { transposeA, transposeB, activation, leakyreluAlpha: 0.3 });
      });
    });

    const convolution = fc
      .record({
        seed,
        batch: extent(3),
        size: fc.tuple(extent(9), extent(9)),
        channels: extent(9),
        outChannels: extent(9),
        filter: fc.tuple(extent(4), extent(4)),
        strides: fc.tuple(extent(3), extent(3)),
        pad: fc.constantFrom('same', 'valid', [
          [0, 0],
          [1, 2],
          [0, 1],
          [0, 0],
        ]),
      })
      .filter(({ pad, size, filter }) => pad !== 'valid' || (size[0] >= filter[0] && size[1] >= filter[1]))
      .filter(
        ({ pad, size, filter }) =>
          typeof pad === 'string' || (size[0] + 3 >= filter[0] && size[1] + 1 >= filter[1]),
      );

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

    test('Conv2DBackpropFilter and Conv2DBackpropInput', async () => {
      await holds(80, convolution, (one) => {
        const attrs = conv(one);
        const inputShape = [one.batch, ...one.size, one.channels];
        const filterShape = [...one.filter, one.channels, one.outChannels];
        const dy = some(one.seed, outputShape(inputShape, filterShape, attrs));
        compare('Conv2DBackpropFilter', { x: some(one.seed + 1, inputShape), dy }, { ...attrs, filterShape });
        compare(
          'Conv2DBackpropInput',
          { dy, filter: some(one.seed + 2, filterShape) },
          { ...attrs, inputShape },
        );
      });
    });

    test('Conv2DBackpropFilter beyond one block in every direction', () => {
      const [inputShape, filterShape] = [
        [2, 13, 14, 48],
        [3, 3, 48, 20],
      ];
      const attrs = conv({ strides: [1, 1], pad: 'same' });
      const dy = some(1, outputShape(inputShape, filterShape, attrs));
      compare('Conv2DBackpropFilter', { x: some(2, inputShape), dy }, { ...attrs, filterShape });
    });

    test('convolutions with 3 × 3 filters over many channels, and their gradients', async () => {
      const cases = fc.record({
        seed,
        size: fc.tuple(extent(14, 12), extent(14, 12)),
        channels: fc.constantFrom(16, 20, 24),
        outChannels: fc.constantFrom(16, 20, 28),
        pad: fc.constantFrom('same', 'valid', [
          [0, 0],
          [1, 2],
          [0, 3],
          [0, 0],
        ]),
      });
      await holds(4, cases, ({ seed, size, channels, outChannels, pad }) => {
        const attrs = conv({ strides: [1, 1], pad });
        const inputShape = [3, ...size, channels];
        const filterShape = [3, 3, channels, outChannels];
        const dy = some(seed, outputShape(inputShape, filterShape, attrs));
        const [x, filter] = [some(seed + 1, inputShape), some(seed + 2, filterShape)];
        compare('Conv2D', { x, filter }, attrs);
        compare('Conv2DBackpropFilter', { x, dy }, { ...attrs, filterShape });
        compare('Conv2DBackpropInput', { dy, filter }, { ...attrs, inputShape });
      });
    });

    test('the gradients of depthwise convolutions', async () => {
      const cases = fc.record({ one: convolution, multiplier: extent(3) });
      await holds(50, cases, ({ one, multiplier }) => {
        const attrs = { ...conv(one), dilations: [1, 1] };
        const inputShape = [one.batch, ...one.size, one.channels];
        const filterShape = [...one.filter, one.channels, multiplier];
        const dy = some(one.seed, outputShape(inputShape, filterShape, attrs, true));
        const filter = some(one.seed + 1, filterShape);
        const x = some(one.seed + 2, inputShape);
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
        seed,
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
      const cases = fc.record({ seed, sides, stride: extent(2), pad: fc.constantFrom('same', 'valid') });
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

    test('UnsortedSegmentSum, with numbers out of range', async () => {
      const cases = fc.record({
        seed,
        rows: extent(40),
        width: fc.array(extent(5), { maxLength: 2 }),
        count: extent(6),
      });
      await holds(30, cases, ({ seed, rows, width, count }) => {
        const ids = some(seed, [rows]).values;
        const segmentIds = {
          shape: [rows],
          values: Int32Array.from(ids, (value) => Math.floor(value * 5) + 1),
        };
        compare(
          'UnsortedSegmentSum',
          { x: some(seed + 1, [rows, ...width]), segmentIds },
          { numSegments: count },
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

    test('Sum over leading axes', async () => {
      const cases = fc.record({
        seed,
        shape: fc.array(extent(12), { minLength: 2, maxLength: 4 }),
        keepDims: fc.boolean(),
      });
      await holds(40, cases, ({ seed, shape, keepDims }) => {
        for (let count = 1; count <= shape.length; count++) {
          const axis = shape.slice(0, count).map((_, i) => i);
          compare('Sum', { x: some(seed, shape) }, { axis, keepDims });
        }
      });
    });
  });
}

test('ResizeNearestNeighborGrad is the adjoint of the resizing', async () => {
  const cases = fc.record({
    seed,
    from: fc.tuple(extent(5), extent(5)),
    to: fc.tuple(extent(9), extent(9)),
    aligned: fc.boolean(),
  });
  await holds(40, cases, ({ seed, from, to, aligned }) => {
    tf.tidy(() => {
      const x = tf.tensor(some(seed, [2, ...from, 3]).values, [2, ...from, 3]) as tf.Tensor4D;
      const dy = tf.tensor(some(seed + 1, [2, ...to, 3]).values, [2, ...to, 3]);
      const resized = (image: tf.Tensor4D) =>
        tf.image.resizeNearestNeighbor(image, to, aligned).mul(dy).sum();
      const along = tf
        .grad((image) => resized(image as tf.Tensor4D))(x)
        .mul(x)
        .sum()
        .dataSync()[0] as number;
      const expected = resized(x).dataSync()[0] as number;
      assert.ok(Math.abs(along - expected) < 1e-3, `${along}, expected ${expected}`);
    });
  });
});

test('a clone outlives its original and shares its memory', () => {
  const backend = theBackend();
  const original = tf.tensor1d([1, 2, 3]);
  const clone = tf.clone(original);
  assert.equal(backend.getMemoryOffset(clone.dataId), backend.getMemoryOffset(original.dataId));
  original.dispose();
  assert.deepEqual([...clone.dataSync()], [1, 2, 3]);
  clone.dispose();
});

test('a cast to bool asks whether a number is zero', () => {
  tf.tidy(() => {
    assert.deepEqual([...tf.tensor1d([0.5, 0, -1, 256, -0]).cast('bool').dataSync()], [1, 0, 1, 1, 0]);
    assert.deepEqual([...tf.tensor1d([3, 0, -1], 'int32').cast('bool').dataSync()], [1, 0, 1]);
    assert.deepEqual([...tf.tensor1d([1.7, -1.7]).cast('int32').dataSync()], [1, -1]);
  });
});

test('tensors of another backend are used as they are, whatever array holds them', async () => {
  await tf.setBackend('cpu');
  const labels = tf.oneHot([1, 0, 1], 2).toFloat(); // which the cpu backend would hold as an Int32Array
  const x = tf.tensor4d([-1, -2, -3, -4], [1, 2, 2, 1]);
  await tf.setBackend('wasm');
  assert.deepEqual([...labels.dataSync()], [0, 1, 1, 0, 0, 1]);
  assert.deepEqual([...labels.mul(2).dataSync()], [0, 2, 2, 0, 0, 2]);
  const gradient = tf.grad((image) => tf.maxPool(image as tf.Tensor4D, 2, 2, 'valid').sum())(x);
  assert.deepEqual([...gradient.dataSync()], [1, 0, 0, 0]);
  tf.dispose([labels, x, gradient]);
});

function theBackend(): WasmBackend {
  return tf.findBackend('wasm') as unknown as WasmBackend;
}

/** The backend as the threaded build shows it: its memory cannot be shared with our module. */
function withoutNative(backend: WasmBackend): WasmBackend {
  const hidden = Object.create(backend.wasm, { asm: { value: undefined } }) as WasmModule;
  return new Proxy(backend, {
    get: (target, key, self) => (key === 'wasm' ? hidden : Reflect.get(target, key, self)),
  });
}

function sameAsCpu(
  kind: 'native' | 'plain',
  name: string,
  inputs: Record<string, Input | undefined>,
  attrs: Attributes,
  tolerance = 2e-5,
): void {
  const cpu = tf.findBackend('cpu') as unknown as WasmBackend;
  const wasm = kind === 'native' ? theBackend() : withoutNative(theBackend());
  const expected = run(cpu, 'cpu', name, inputs, attrs);
  const found = run(wasm, 'wasm', name, inputs, attrs);
  assert.deepEqual(found.shape, expected.shape);
  const finite = Array.from(expected.values, Math.abs).filter(Number.isFinite);
  const largest = finite.reduce((a, b) => Math.max(a, b), 1);
  for (const [i, value] of expected.values.entries()) {
    const one = found.values[i] as number;
    if (Object.is(one, value) || one === value || Math.abs(one - value) <= tolerance * largest) continue;
    assert.fail(`${name} ${JSON.stringify(attrs)}: [${i}] is ${one}, expected ${value}`);
  }
}

/** Runs one kernel and sees that nothing but its result is left in the backend. */
function run(
  backend: WasmBackend,
  backendName: string,
  name: string,
  inputs: Record<string, Input | undefined>,
  attrs: Attributes,
): { shape: number[]; values: Float32Array } {
  const counted = backend as unknown as { numDataIds(): number };
  const infos = Object.fromEntries(
    Object.entries(inputs).flatMap(([key, input]) => {
      if (input === undefined) return [];
      const dtype: tf.DataType = input.values instanceof Int32Array ? 'int32' : 'float32';
      const shape = [...input.shape];
      return [[key, { dataId: backend.write(input.values.slice(), shape, dtype), shape, dtype }]];
    }),
  );
  const before = counted.numDataIds();
  if (backendName === 'wasm') dirty(backend);
  const kernel = tf.getKernel(name, backendName).kernelFunc as unknown as Kernel;
  const output = kernel({ inputs: infos, backend, attrs }) as tf.TensorInfo;
  if (backendName === 'wasm') assert.equal(counted.numDataIds(), before + 1, `${name} leaves data behind`);
  const values =
    backendName === 'wasm'
      ? floats(backend, output)[0].slice()
      : (backend.readSync(output.dataId) as Float32Array);
  for (const { dataId } of [output, ...Object.values(infos)]) backend.disposeData(dataId);
  return { shape: output.shape, values };
}

/** Fills memory that malloc() will hand out next: results must not rely on zeros. */
function dirty(backend: WasmBackend): void {
  for (const length of [8, 64, 512, 4096]) {
    const info = backend.makeOutput([length], 'float32');
    backend.typedArrayFromHeap(info).fill(7);
    backend.disposeData(info.dataId);
  }
}

function some(seed: number, shape: readonly number[]): Input {
  const size = shape.reduce((a, b) => a * b, 1);
  let state = seed;
  const values = Float32Array.from({ length: size }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });
  return { shape, values };
}
