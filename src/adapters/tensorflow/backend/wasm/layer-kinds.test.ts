// Every kind of layer trains on the wasm backend as on the cpu backend: with the same weights, one step gives the same loss and
// gradients. The loss falls, and no tensors leak.

import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as tf from '@tensorflow/tfjs';
import { setBackend } from '../set-backend.ts';

const { layers } = tf;

/** One or several layers under test, behind a layer with weights, which their gradients have to reach. */
interface Kind {
  readonly inputShape: number[];
  readonly build: (input: tf.SymbolicTensor) => tf.SymbolicTensor;
  /** The inputs are integers below this number, for embeddings. */
  readonly vocabulary?: number;
  /** Default: 4. */
  readonly batch?: number;
}

type Apply = { apply(input: tf.SymbolicTensor | tf.SymbolicTensor[]): unknown };

const through = (...list: Apply[]): Kind['build'] => {
  return (input) => list.reduce((value, layer) => layer.apply(value) as tf.SymbolicTensor, input);
};

/** After a dense layer, so that the gradient has to pass through the layers under test. */
const flat = (...list: Apply[]): Kind => ({
  inputShape: [7],
  build: (input) => through(layers.dense({ units: 6 }), ...list)(input),
});

/** After a convolution with positive and negative outputs. */
const image = (...list: Apply[]): Kind => ({
  inputShape: [7, 8, 2],
  build: (input) => through(layers.conv2d({ filters: 3, kernelSize: 2, padding: 'same' }), ...list)(input),
});

const volume = (...list: Apply[]): Kind => ({
  inputShape: [4, 5, 6, 2],
  build: (input) => through(layers.conv3d({ filters: 3, kernelSize: 2, padding: 'same' }), ...list)(input),
});

const sequence = (...list: Apply[]): Kind => ({
  inputShape: [5, 4],
  build: (input) => through(layers.timeDistributed({ layer: layers.dense({ units: 3 }) }), ...list)(input),
});

const merged = (merge: Apply): Kind => ({
  inputShape: [7],
  build: (input) =>
    merge.apply([
      layers.dense({ units: 5, activation: 'tanh' }).apply(input) as tf.SymbolicTensor,
      layers.dense({ units: 5 }).apply(input) as tf.SymbolicTensor,
    ]) as tf.SymbolicTensor,
});

const embedded = (...list: Apply[]): Kind => ({
  inputShape: [6],
  vocabulary: 9,
  build: (input) => through(layers.embedding({ inputDim: 9, outputDim: 4 }), ...list)(input),
});

const activations = [
  'elu',
  'hardSigmoid',
  'linear',
  'relu',
  'relu6',
  'selu',
  'sigmoid',
  'softmax',
  'softplus',
  'softsign',
  'tanh',
  'swish',
  'mish',
  'gelu',
] as const;

// These layers are missing because no backend can train them: thresholdedReLU and conv3dTranspose (TensorFlow.js has no
// gradients for them) and causal conv1d (TensorFlow.js has none).
const kinds: Record<string, () => Kind> = {
  dense: () => flat(layers.dense({ units: 65, kernelRegularizer: 'l1l2' })),
  'dense on sequences': () => sequence(layers.dense({ units: 4, activation: 'relu' })),
  ...Object.fromEntries(
    activations.map((activation) => [
      `activation ${activation}`,
      () => flat(layers.dense({ units: 6 }), layers.activation({ activation })),
    ]),
  ),
  dropout: () => flat(layers.dropout({ rate: 0.3, seed: 3 })),
  spatialDropout1d: () => sequence(layers.spatialDropout1d({ rate: 0.3, seed: 3 })),
  gaussianNoise: () => flat(layers.gaussianNoise({ stddev: 0.1 })),
  gaussianDropout: () => flat(layers.gaussianDropout({ rate: 0.3 })),
  alphaDropout: () => flat(layers.alphaDropout({ rate: 0.3 })),
  batchNormalization: () => flat(layers.batchNormalization()),
  'batchNormalization of images': () => image(layers.batchNormalization(), layers.maxPooling2d({})),
  layerNormalization: () => sequence(layers.layerNormalization()),
  leakyReLU: () => flat(layers.leakyReLU()),
  prelu: () => flat(layers.prelu()),
  elu: () => flat(layers.elu()),
  reLU: () => flat(layers.reLU({ maxValue: 1 })),
  softmax: () => flat(layers.softmax()),
  conv1d: () => sequence(layers.conv1d({ filters: 4, kernelSize: 3, strides: 2, padding: 'same' })),
  conv2d: () => image(layers.conv2d({ filters: 5, kernelSize: 3, activation: 'relu' })),
  'conv2d with strides': () => image(layers.conv2d({ filters: 5, kernelSize: [2, 3], strides: [2, 1] })),
  'conv2d, padded, with strides': () =>
    image(layers.conv2d({ filters: 4, kernelSize: 3, strides: 2, padding: 'same' })),
  'conv2d of one pixel': () => image(layers.conv2d({ filters: 6, kernelSize: 1 })),
  conv2dTranspose: () => image(layers.conv2dTranspose({ filters: 4, kernelSize: 3, strides: 2 })),
  'conv2dTranspose, padded': () =>
    image(layers.conv2dTranspose({ filters: 2, kernelSize: 2, padding: 'same' })),
  'conv2dTranspose, 5 × 5 with strides, to one channel': () =>
    image(
      layers.conv2dTranspose({ filters: 9, kernelSize: 5, strides: 2, padding: 'same' }),
      layers.conv2dTranspose({ filters: 1, kernelSize: 5, strides: 2, padding: 'same' }),
    ),
  depthwiseConv2d: () => image(layers.depthwiseConv2d({ kernelSize: 3, depthMultiplier: 2 })),
  'depthwiseConv2d with strides': () =>
    image(layers.depthwiseConv2d({ kernelSize: 2, strides: 2, padding: 'same' })),
  separableConv2d: () => image(layers.separableConv2d({ filters: 4, kernelSize: 3 })),
  conv3d: () => volume(layers.conv3d({ filters: 3, kernelSize: 2, strides: 2 })),
  convLstm2d: () => ({
    inputShape: [3, 5, 5, 2],
    build: through(layers.convLstm2d({ filters: 3, kernelSize: 2, padding: 'same' })),
  }),
  'lstm over lstm': () =>
    sequence(layers.lstm({ units: 4, returnSequences: true }), layers.lstm({ units: 3 })),
  gru: () => sequence(layers.gru({ units: 4 })),
  simpleRNN: () => sequence(layers.simpleRNN({ units: 4 })),
  'bidirectional gru': () =>
    sequence(layers.bidirectional({ layer: layers.gru({ units: 3 }) as tf.RNN, mergeMode: 'concat' })),
  embedding: () => embedded(layers.flatten()),
  'embedding with masking': () => ({
    inputShape: [6],
    vocabulary: 9,
    build: through(
      layers.embedding({ inputDim: 9, outputDim: 4, maskZero: true }),
      layers.lstm({ units: 3 }),
    ),
  }),
  masking: () => ({
    inputShape: [5, 4],
    build: through(layers.masking({ maskValue: 0 }), layers.gru({ units: 3 })),
  }),
  maxPooling1d: () => sequence(layers.maxPooling1d({ poolSize: 2, padding: 'same' })),
  averagePooling1d: () => sequence(layers.averagePooling1d({ poolSize: 2 })),
  globalMaxPooling1d: () => sequence(layers.globalMaxPooling1d({})),
  globalAveragePooling1d: () => embedded(layers.globalAveragePooling1d({})),
  maxPooling2d: () => image(layers.maxPooling2d({ poolSize: 2 })),
  'maxPooling2d, overlapping': () => image(layers.maxPooling2d({ poolSize: 3, strides: 1, padding: 'same' })),
  averagePooling2d: () => image(layers.averagePooling2d({ poolSize: 2 })),
  globalMaxPooling2d: () => image(layers.globalMaxPooling2d({})),
  globalAveragePooling2d: () => image(layers.globalAveragePooling2d({})),
  maxPooling3d: () => volume(layers.maxPooling3d({ poolSize: 2 })),
  averagePooling3d: () => volume(layers.averagePooling3d({ poolSize: 2 })),
  // One image, because the cpu backend uses the gradient of the first image for all.
  upSampling2d: () => ({ ...image(layers.upSampling2d({ size: [2, 3] })), batch: 1 }),
  // Square, because the gradient of the cpu backend swaps height and width.
  'upSampling2d, bilinear': () =>
    image(
      layers.cropping2D({
        cropping: [
          [0, 0],
          [1, 0],
        ],
      }),
      layers.upSampling2d({ size: [2, 2], interpolation: 'bilinear' }),
    ),
  zeroPadding2d: () => image(layers.zeroPadding2d({ padding: [1, 2] })),
  cropping2D: () =>
    image(
      layers.cropping2D({
        cropping: [
          [1, 0],
          [2, 1],
        ],
      }),
    ),
  reshape: () => flat(layers.reshape({ targetShape: [2, 3] }), layers.permute({ dims: [2, 1] })),
  repeatVector: () => flat(layers.repeatVector({ n: 3 }), layers.simpleRNN({ units: 3 })),
  add: () => merged(layers.add()),
  average: () => merged(layers.average()),
  multiply: () => merged(layers.multiply()),
  maximum: () => merged(layers.maximum()),
  minimum: () => merged(layers.minimum()),
  concatenate: () => merged(layers.concatenate()),
  dot: () => merged(layers.dot({ axes: 1 })),
};

describe('wasm trains like cpu:', () => {
  before(async () => {
    await setBackend('wasm');
  });

  for (const [name, kind] of Object.entries(kinds)) {
    test(name, async (context) => {
      context.mock.method(Math, 'random', seededRandom());
      await tf.setBackend('cpu');
      const onCpu = makeTrial(kind());
      const weights = onCpu.model.getWeights().map((weight) => weight.dataSync().slice());
      const expected = onCpu.step();
      onCpu.dispose();

      context.mock.method(Math, 'random', seededRandom());
      await tf.setBackend('wasm');
      const onWasm = makeTrial(kind());
      const shapes = onWasm.model.getWeights().map(({ shape }) => shape);
      tf.tidy(() =>
        onWasm.model.setWeights(weights.map((values, i) => tf.tensor(values, shapes[i] as number[]))),
      );
      const found = onWasm.step();
      close([found.loss], [expected.loss], 'loss');
      assert.equal(found.gradients.length, expected.gradients.length);
      for (const [i, gradient] of found.gradients.entries()) {
        close(gradient, expected.gradients[i] as Float32Array, `gradient ${i}`);
      }

      const [first, last] = onWasm.train(12);
      assert.ok(last < first, `the loss fell from ${first} to ${last}`);
      const counts = () => [tf.memory().numTensors, tf.memory().numBytes, tf.backend().numDataIds()];
      const before = counts();
      onWasm.train(2);
      assert.deepEqual(counts(), before);
      onWasm.dispose();
    });
  }
});

interface Trial {
  readonly model: tf.LayersModel;
  step(): { loss: number; gradients: Float32Array[] };
  train(steps: number): [first: number, last: number];
  dispose(): void;
}

/** A model of the layers under test and a dense layer, with the mean squared error as its loss. */
function makeTrial(kind: Kind): Trial {
  const { batch = 4 } = kind;
  const input = tf.input({ shape: kind.inputShape });
  const features = kind.build(input);
  const flatFeatures =
    features.shape.length > 2 ? (layers.flatten().apply(features) as tf.SymbolicTensor) : features;
  const output = layers.dense({ units: 2 }).apply(flatFeatures) as tf.SymbolicTensor;
  const model = tf.model({ inputs: input, outputs: output });
  const random = seededRandom(5);
  const size = batch * kind.inputShape.reduce((a, b) => a * b, 1);
  const { vocabulary } = kind;
  const values = Float32Array.from({ length: size }, () =>
    vocabulary === undefined ? random() * 2 - 1 : Math.floor(random() * vocabulary),
  );
  const x = tf.tensor(values, [batch, ...kind.inputShape]);
  const target = tf.tensor2d(Float32Array.from({ length: 2 * batch }, random), [batch, 2]);
  const variables = model.trainableWeights.map((weight) => weight.read() as tf.Variable);
  const loss = (training = true) =>
    tf.tidy(() => {
      const prediction = model.apply(x, { training }) as tf.Tensor2D;
      const penalties = model.calculateLosses().reduce((sum, one) => tf.add(sum, one), tf.scalar(0));
      return tf.add(tf.losses.meanSquaredError(target, prediction), penalties) as tf.Scalar;
    });
  const optimizer = tf.train.sgd(0.02);
  return {
    model,
    step: () =>
      tf.tidy(() => {
        const { value, grads } = tf.variableGrads(() => loss(), variables);
        const gradients = variables.map(({ name }) => (grads[name] as tf.Tensor).dataSync().slice());
        return { loss: value.dataSync()[0] as number, gradients: gradients as Float32Array[] };
      }),
    train: (steps) => {
      const lossNow = () => tf.tidy(() => loss(false).dataSync()[0] as number);
      const first = lossNow();
      for (let i = 0; i < steps; i++) optimizer.minimize(() => loss(), false, variables);
      return [first, lossNow()];
    },
    dispose: () => {
      tf.dispose([x, target]);
      model.dispose();
      optimizer.dispose();
    },
  };
}

/**
 * Compares relative to the largest value, because single values may be differences of large ones. Some gradients are zero except for
 * rounding (that of a bias before batch normalization), hence the lower limit.
 */
function close(found: ArrayLike<number>, expected: ArrayLike<number>, what: string): void {
  assert.equal(found.length, expected.length, what);
  const largest = Math.max(0.2, ...Array.from(expected, Math.abs));
  for (let i = 0; i < expected.length; i++) {
    const difference = Math.abs((found[i] as number) - (expected[i] as number));
    assert.ok(difference <= 2e-5 * largest, `${what}[${i}] is ${found[i]}, expected ${expected[i]}`);
  }
}

function seededRandom(seed = 1): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
