// Kernels on empty tensors, on NaN, infinities and subnormal numbers, and while the heap grows, against the cpu backend's. For each set of
// compiled kernels that this processor has.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import fc from 'fast-check';
import {
  extent,
  growHeap,
  holds,
  type Kind,
  kinds,
  sameAsCpu,
  seeds,
  some,
  strange,
  theBackend,
} from '../../../../../test/support/same-as-cpu.ts';
import { setBackend } from '../set-backend.ts';
import { compiledKernels, type KernelSetName, useKernelSet } from './compiled-kernels.ts';

await setBackend('wasm');
const best = compiledKernels(theBackend())?.set as KernelSetName;
after(() => useKernelSet(theBackend(), best));

type Values = typeof some;

/** Every kernel that the compiled ones replace, on values from `make`. */
function compareAll(kind: Kind, make: Values, { seed, extents }: { seed: number; extents: number[] }): void {
  const [batch, height, width, channels, outChannels] = extents as [number, number, number, number, number];
  const same = (name: string, inputs: Parameters<typeof sameAsCpu>[2], attrs: object = {}) =>
    sameAsCpu(kind, name, inputs, attrs as Parameters<typeof sameAsCpu>[3]);
  const [a, b] = [make(seed, [1, height, width]), make(seed + 1, [1, width, channels])];
  same('BatchMatMul', { a, b }, { transposeA: false, transposeB: false });
  const [at, bt] = [make(seed, [width, height]), make(seed + 1, [channels, width])];
  same('BatchMatMul', { a: at, b: bt }, { transposeA: true, transposeB: true });
  const bias = make(seed + 2, [channels]);
  for (const activation of ['linear', 'relu', 'relu6', 'leakyrelu'])
    same(
      '_FusedMatMul',
      { a, b, bias },
      { transposeA: false, transposeB: false, activation, leakyreluAlpha: 0.2 },
    );
  const image = [batch, height, width, channels];
  same('Add', { a: make(seed, image), b: bias });
  same('Relu', { x: make(seed, image) });
  same('Sum', { x: make(seed, image) }, { axis: [0, 1, 2], keepDims: false });
  const conv = { strides: [1, 2], pad: 'same', dataFormat: 'NHWC', dilations: 1 };
  const [filterShape, depthwiseShape] = [
    [3, 2, channels, outChannels],
    [3, 2, channels, 2],
  ];
  const outputs = [batch, height, Math.ceil(width / 2)];
  const [x, dy] = [make(seed, image), make(seed + 3, [...outputs, outChannels])];
  // Where a window lies in the padding, our kernels multiply by zero and the cpu backend does not, so the other factor is finite.
  const [filter, dyOfFilter] = [some(seed + 4, filterShape), some(seed + 8, [...outputs, outChannels])];
  same('Conv2D', { x, filter }, conv);
  same('Conv2DBackpropFilter', { x, dy: dyOfFilter }, { ...conv, filterShape });
  same('Conv2DBackpropInput', { dy, filter }, { ...conv, inputShape: image });
  const depthwise = { ...conv, dimRoundingMode: undefined };
  const [each, dyOfEach] = [make(seed + 5, depthwiseShape), make(seed + 6, [...outputs, 2 * channels])];
  same('DepthwiseConv2dNative', { x, filter: each }, depthwise);
  same(
    'DepthwiseConv2dNativeBackpropFilter',
    { x, dy: dyOfEach },
    { ...depthwise, filterShape: depthwiseShape },
  );
  same(
    'DepthwiseConv2dNativeBackpropInput',
    { dy: dyOfEach, filter: each },
    { ...depthwise, inputShape: image },
  );
  const pool = { filterSize: [3, 2], strides: [1, 2], pad: 'same' };
  const dyOfPool = make(seed + 7, [...outputs, channels]);
  same('MaxPool', { x }, pool);
  same('AvgPool', { x }, pool);
  same('AvgPoolGrad', { dy: dyOfPool, input: x }, pool);
  same('MaxPoolGrad', { dy: dyOfPool, input: x, output: dyOfPool }, pool);
}

const cases = fc.record({
  seed: seeds,
  extents: fc.tuple(extent(2), extent(6), extent(7), extent(21), extent(19)),
});

for (const kind of kinds().filter((each) => each !== 'plain')) {
  describe(`${kind} kernels give what the cpu backend gives:`, () => {
    // Only ours: on such values XNNPACK's results for pools and activations differ from the cpu backend's.
    if (kind !== 'wasm')
      test('for NaN, infinities, subnormal numbers and zeros of both signs', async () => {
        await holds(15, cases, (one) => compareAll(kind, strange, one));
      });

    test('while the heap grows between calls', () => {
      for (let seed = 1; seed <= 3; seed++) {
        if (seed === 2) growHeap();
        compareAll(kind, some, { seed, extents: [2, 5, 6, 17, 9] });
      }
    });
  });
}

test('the gradient of Relu, and the gradient of that, are those of the cpu backend', async () => {
  const outcomes = [];
  for (const backend of ['cpu', 'wasm']) {
    await tf.setBackend(backend);
    if (backend === 'wasm') useKernelSet(theBackend(), best);
    outcomes.push(
      tf.tidy(() => {
        const [x, dy] = [strange(1, [3, 37]), strange(5, [3, 37])].map(({ values, shape }) =>
          tf.tensor(values, [...shape]),
        ) as [tf.Tensor, tf.Tensor];
        const first = tf.grad(tf.relu);
        const second = tf.grad((one) => first(x, one));
        return [first(x, dy), second(dy)].map((tensor) => Array.from(tensor.dataSync()));
      }),
    );
  }
  assert.deepEqual(outcomes[1], outcomes[0]);
});

describe('empty tensors', () => {
  for (const kind of kinds().filter((each) => each !== 'plain'))
    test(`${kind}: products without rows, columns or depth`, () => {
      for (const [rows, inner, columns] of [
        [0, 3, 4],
        [3, 0, 4],
        [3, 4, 0],
        [0, 0, 0],
      ] as const) {
        const inputs = { a: some(1, [rows, inner]), b: some(2, [inner, columns]) };
        sameAsCpu(kind, 'BatchMatMul', inputs, { transposeA: false, transposeB: false });
      }
    });
});

test('arguments that lead out of the heap are an error, and nothing is written', (t) => {
  const kernels = compiledKernels(theBackend());
  if (kernels?.set === 'wasm') return t.skip('there is no addon');
  const { buffer } = (theBackend().wasm.asm as { memory: { buffer: ArrayBuffer } }).memory;
  const tensor = tf.ones([8]);
  const [at] = [theBackend().getMemoryOffset(tensor.dataId)];
  for (const count of [buffer.byteLength / 4, -1, 0.5, Number.NaN])
    assert.throws(() => kernels?.sgdUpdate(at, at, at, count, -1), RangeError);
  assert.throws(() => kernels?.sgdUpdate(buffer.byteLength, at, at, 8, -1), RangeError);
  assert.throws(() => kernels?.sgdUpdate(at, at), RangeError);
  assert.deepEqual([...tensor.dataSync()], new Array(8).fill(1));
  tensor.dispose();
});
