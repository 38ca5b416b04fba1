// What `npm run bench:kernels` measures: kernels with shapes of usual models, and how much work each is: floating-point operations of
// products and convolutions, bytes read and written of the rest.
import * as tf from '@tensorflow/tfjs';

/** Rows, columns, depth, and which operands are transposed. */
const products = [
  ['x·W', 64, 512, 784, false, false],
  ['x·W', 64, 512, 512, false, false],
  ['xᵀ·dy', 784, 512, 64, true, false],
  ['dy·Wᵀ', 64, 512, 512, false, true],
  ['square', 512, 512, 512, false, false],
  ['one row', 1, 512, 784, false, false],
  ['to 10 classes', 64, 10, 512, false, false],
];

/** Input, filter size, output channels, stride and padding of a convolution. */
const convolutions = [
  // conv2dTranspose layers: their input is the output here.
  ['GAN, to 1 channel', [50, 28, 28, 1], 5, 96, 2, 'same'],
  ['GAN, middle', [50, 14, 14, 96], 5, 192, 2, 'same'],
  ['GAN, first', [50, 7, 7, 192], 5, 384, 1, 'valid'],
  ['DCGAN, 4 x 4', [32, 16, 16, 64], 4, 128, 2, 'same'],
  ['upsampling, 2 x 2', [16, 32, 32, 32], 2, 64, 2, 'valid'],
  // conv2d layers.
  ['first layer, 1 channel', [64, 28, 28, 1], 3, 32, 1, 'valid'],
  ['first layer, 3 channels', [32, 32, 32, 3], 3, 32, 1, 'same'],
  ['first layer, 7 x 7', [4, 112, 112, 3], 7, 64, 2, 'same'],
  ['5 x 5, few channels', [64, 12, 12, 8], 5, 16, 1, 'valid'],
  ['5 x 5', [64, 14, 14, 32], 5, 64, 1, 'same'],
  ['3 x 3, stride 2', [32, 28, 28, 32], 3, 64, 2, 'same'],
  ['3 x 3, stride 2, 7 channels', [32, 28, 28, 7], 3, 64, 2, 'same'],
  ['1 x 1', [32, 14, 14, 128], 1, 128, 1, 'same'],
  ['1 x 1, stride 2', [32, 14, 14, 128], 1, 256, 2, 'same'],
  ['3 x 3 to 1 channel', [32, 28, 28, 64], 3, 1, 1, 'same'],
  ['5 x 5 to 3 channels', [32, 32, 32, 32], 5, 3, 1, 'same'],
  ['4 x 4 to 1 channel, stride 2', [32, 32, 32, 64], 4, 1, 2, 'same'],
  ['1 to 1 channel', [32, 64, 64, 1], 5, 1, 1, 'same'],
  ['3 x 3, Winograd', [64, 26, 26, 32], 3, 64, 1, 'valid'],
];

const updates = {
  SGDOptimizer: [() => tf.train.sgd(0.01), 3],
  MomentumOptimizer: [() => tf.train.momentum(0.01, 0.9), 5],
  AdamOptimizer: [() => tf.train.adam(0.001), 7],
  RMSPropOptimizer: [() => tf.train.rmsprop(0.001), 7],
  AdagradOptimizer: [() => tf.train.adagrad(0.001), 5],
};

/** `prepare()` makes the inputs; `refresh()` replaces those that the backend must not know. */
export function kernelCases(backend) {
  return [
    ...products.map((one) => productCase(backend, one)),
    ...convolutions.flatMap((one) => convolutionCases(backend, one)),
    ...depthwiseCases(backend),
    ...poolCases(backend),
    sumCase(backend),
    ...Object.entries(updates).map(([name, [make, streams]]) => updateCase(name, make, streams)),
  ];
}

function productCase(backend, [label, rows, columns, depth, transposeA, transposeB]) {
  const shapes = {
    a: transposeA ? [depth, rows] : [rows, depth],
    b: transposeB ? [columns, depth] : [depth, columns],
  };
  const name = `${label}, ${rows} × ${depth} × ${columns}`;
  const attrs = { transposeA, transposeB };
  return kernelCase(backend, name, 'BatchMatMul', shapes, attrs, 2 * rows * columns * depth, 'GFLOP/s', 'b');
}

function convolutionCases(backend, [label, inputShape, size, outChannels, strides, pad]) {
  const filterShape = [size, size, inputShape[3], outChannels];
  const { outShape } = tf.backend_util.computeConv2DInfo(inputShape, filterShape, strides, 1, pad);
  const work = 2 * sizeOf(outShape) * size * size * inputShape[3];
  const attrs = {
    strides,
    pad,
    dataFormat: 'NHWC',
    dilations: 1,
    inputShape,
    filterShape,
    activation: 'linear',
  };
  const shapes = { x: inputShape, dy: outShape, filter: filterShape, bias: [outChannels] };
  const name = `${label}: [${inputShape}] → ${outChannels}, ${size} × ${size}, /${strides} ${pad}`;
  return ['Conv2D', 'FusedConv2D', 'Conv2DBackpropInput', 'Conv2DBackpropFilter'].map((kernelName) =>
    kernelCase(backend, name, kernelName, shapes, attrs, work, 'GFLOP/s', 'filter'),
  );
}

function depthwiseCases(backend) {
  return [1, 2].flatMap((strides) => {
    const [inputShape, filterShape] = [
      [16, 28, 28, 128],
      [3, 3, 128, 1],
    ];
    const { outShape } = tf.backend_util.computeConv2DInfo(
      ...[inputShape, filterShape, strides, 1, 'same', undefined, true],
    );
    const attrs = { strides, pad: 'same', dataFormat: 'NHWC', dilations: 1, inputShape, filterShape };
    const shapes = { x: inputShape, dy: outShape, filter: filterShape };
    const names = ['', 'BackpropInput', 'BackpropFilter'].map((kind) => `DepthwiseConv2dNative${kind}`);
    const label = `[${inputShape}], 3 × 3, /${strides} same`;
    return names.map((name) =>
      kernelCase(backend, label, name, shapes, attrs, 18 * sizeOf(outShape), 'GFLOP/s', 'filter'),
    );
  });
}

function poolCases(backend) {
  const [x, dy] = [
    [64, 24, 24, 64],
    [64, 12, 12, 64],
  ];
  const attrs = { filterSize: 2, strides: 2, pad: 'valid' };
  const bytes = 4 * (sizeOf(x) + sizeOf(dy));
  const make = (name, shapes, work) =>
    kernelCase(backend, `[${x}], 2 × 2`, name, shapes, attrs, work, 'GB/s');
  return [
    make('MaxPool', { x }, bytes),
    make('MaxPoolGrad', { dy, input: x, output: dy }, bytes + 4 * sizeOf(x)),
    make('AvgPool', { x }, bytes),
    make('AvgPoolGrad', { dy, input: x }, bytes),
  ];
}

function sumCase(backend) {
  const shape = [64, 24, 24, 64];
  const attrs = { axis: [0, 1, 2], keepDims: false };
  return kernelCase(
    backend,
    `[${shape}] over all but channels`,
    'Sum',
    { x: shape },
    attrs,
    4 * sizeOf(shape),
    'GB/s',
  );
}

/** Each call gets a new tensor for the input `fresh`. */
function kernelCase(backend, label, kernelName, shapes, attrs, work, unit, fresh) {
  const prepare = () => {
    const made = Object.fromEntries(
      Object.entries(shapes).map(([name, shape]) => [name, random(backend, shape)]),
    );
    return {
      inputs: () => made,
      refresh: () => {
        if (fresh === undefined) return;
        backend.disposeData(made[fresh].dataId);
        made[fresh] = random(backend, shapes[fresh]);
      },
      dispose: () => {
        for (const { dataId } of Object.values(made)) backend.disposeData(dataId);
      },
    };
  };
  return { label, kernelName, attrs, work, unit, prepare };
}

/** The update of one variable; `streams` counts what is read and written at least. */
function updateCase(optimizer, make, streams) {
  const shape = [784, 512];
  const prepare = () => {
    const one = make();
    const variable = tf.variable(tf.randomNormal(shape, 0, 1, 'float32', 7), true, `bench/${optimizer}`);
    const tensor = tf.randomNormal(shape, 0, 1, 'float32', 8);
    const gradients = [{ name: variable.name, tensor }];
    one.applyGradients(gradients);
    return {
      update: (apply = (target, list) => target.applyGradients(list)) => {
        apply(one, gradients);
      },
      refresh: () => {},
      dispose: () => {
        one.dispose();
        tf.dispose([variable, tensor]);
      },
    };
  };
  const work = 4 * streams * sizeOf(shape);
  return { label: `[${shape}]`, kernelName: optimizer, optimizer, work, unit: 'GB/s', prepare };
}

function sizeOf(shape) {
  return shape.reduce((a, b) => a * b, 1);
}

function random(backend, shape) {
  const info = backend.makeOutput(shape, 'float32');
  const values = backend.typedArrayFromHeap(info);
  let state = 12345;
  for (let i = 0; i < values.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    values[i] = state / 2 ** 32 - 0.5;
  }
  return info;
}
