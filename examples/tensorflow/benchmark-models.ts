// The models of the synthetic benchmark, written with TensorFlow.js operations. All of them take images of 28 × 28 pixels
// and return ten logits per image:
//
//   mlp          784-512-512-10
//   cnn          two convolutions of 3 × 3 (32 and 64 channels), pooling, 128-10
//   transformer  16 patches of 7 × 7 pixels, two encoder blocks of width 64 with four heads, mean, 10

import * as tf from '@tensorflow/tfjs';

export const modelNames = ['mlp', 'cnn', 'transformer'] as const;
export type ModelName = (typeof modelNames)[number];

export interface Model {
  readonly variables: tf.Variable[];
  readonly parameters: number;
  /** [batch, 28, 28, 1] → [batch, 10] */
  logits(images: tf.Tensor4D): tf.Tensor2D;
}

const makers = { mlp: createMlp, cnn: createCnn, transformer: createTransformer } as const;

export function createModel(name: ModelName): Model {
  const weights = new Weights();
  const logits = makers[name](weights);
  return { variables: weights.variables, parameters: weights.parameters, logits };
}

type Logits = Model['logits'];

/** Creates the variables of a model and keeps them in order. */
class Weights {
  readonly variables: tf.Variable[] = [];

  get parameters(): number {
    return this.variables.reduce((sum, variable) => sum + variable.size, 0);
  }

  /** Random values that preserve the variance of the inputs, for layers with ReLU. */
  random<R extends tf.Rank>(shape: tf.ShapeMap[R], inputs: number): tf.Variable<R> {
    return this.#add(tf.tidy(() => tf.randomNormal<R>(shape, 0, Math.sqrt(2 / inputs))));
  }

  constant(length: number, value: number): tf.Variable<tf.Rank.R1> {
    return this.#add(tf.fill<tf.Rank.R1>([length], value));
  }

  #add<R extends tf.Rank>(values: tf.Tensor<R>): tf.Variable<R> {
    const variable = tf.variable(values);
    values.dispose();
    this.variables.push(variable);
    return variable;
  }
}

/** x · kernel + bias, on the last dimension. */
function dense(weights: Weights, inputs: number, outputs: number): (x: tf.Tensor2D) => tf.Tensor2D {
  const kernel = weights.random<tf.Rank.R2>([inputs, outputs], inputs);
  const bias = weights.constant(outputs, 0);
  return (x) => tf.matMul(x, kernel).add(bias);
}

function createMlp(weights: Weights): Logits {
  const first = dense(weights, 784, 512);
  const second = dense(weights, 512, 512);
  const last = dense(weights, 512, 10);
  return (images) => {
    const flat = images.reshape<tf.Tensor2D>([images.shape[0], 784]);
    return last(tf.relu(second(tf.relu(first(flat)))));
  };
}

function createCnn(weights: Weights): Logits {
  const kernel1 = weights.random<tf.Rank.R4>([3, 3, 1, 32], 9);
  const bias1 = weights.constant(32, 0);
  const kernel2 = weights.random<tf.Rank.R4>([3, 3, 32, 64], 288);
  const bias2 = weights.constant(64, 0);
  const hidden = dense(weights, 12 * 12 * 64, 128);
  const last = dense(weights, 128, 10);
  return (images) => {
    const one = tf.relu(tf.conv2d(images, kernel1, 1, 'valid').add<tf.Tensor4D>(bias1));
    const two = tf.relu(tf.conv2d(one, kernel2, 1, 'valid').add<tf.Tensor4D>(bias2));
    const pooled = tf.maxPool(two, 2, 2, 'valid');
    return last(tf.relu(hidden(pooled.reshape<tf.Tensor2D>([images.shape[0], 12 * 12 * 64]))));
  };
}

const width = 64;
const heads = 4;
const patchSize = 7;
const patchesPerSide = 4;
const patches: number = patchesPerSide * patchesPerSide;

function createTransformer(weights: Weights): Logits {
  const embed = dense(weights, patchSize * patchSize, width);
  const positions = weights.random<tf.Rank.R2>([patches, width], width);
  const blocks = [encoderBlock(weights), encoderBlock(weights)];
  const normalize = layerNorm(weights);
  const last = dense(weights, width, 10);
  return (images) => {
    const batch = images.shape[0];
    const cut = images
      .reshape([batch, patchesPerSide, patchSize, patchesPerSide, patchSize])
      .transpose([0, 1, 3, 2, 4])
      .reshape<tf.Tensor2D>([batch * patches, patchSize * patchSize]);
    const placed = embed(cut).reshape<tf.Tensor3D>([batch, patches, width]).add<tf.Tensor3D>(positions);
    const encoded = blocks.reduce(
      (x, block) => block(x, batch),
      placed.reshape<tf.Tensor2D>([batch * patches, width]),
    );
    return last(normalize(encoded).reshape([batch, patches, width]).mean<tf.Tensor2D>(1));
  };
}

/** Attention, then two dense layers; each normalizes its input and has a residual connection. [batch · patches, width] */
function encoderBlock(weights: Weights): (x: tf.Tensor2D, batch: number) => tf.Tensor2D {
  const beforeAttention = layerNorm(weights);
  const [query, key, value, output] = [0, 1, 2, 3].map(() => dense(weights, width, width)) as [
    Dense,
    Dense,
    Dense,
    Dense,
  ];
  const beforeDense = layerNorm(weights);
  const wide = dense(weights, width, 2 * width);
  const narrow = dense(weights, 2 * width, width);
  return (x, batch) => {
    const split = (projected: tf.Tensor2D): tf.Tensor4D =>
      projected
        .reshape<tf.Tensor4D>([batch, patches, heads, width / heads])
        .transpose<tf.Tensor4D>([0, 2, 1, 3]);
    const normal = beforeAttention(x);
    const likeness = tf.matMul(split(query(normal)), split(key(normal)), false, true);
    const attention = tf.softmax(likeness.div<tf.Tensor4D>(Math.sqrt(width / heads)));
    const seen = tf.matMul(attention, split(value(normal))).transpose([0, 2, 1, 3]);
    const attended = x.add<tf.Tensor2D>(output(seen.reshape<tf.Tensor2D>([batch * patches, width])));
    return attended.add(narrow(tf.relu(wide(beforeDense(attended)))));
  };
}

type Dense = ReturnType<typeof dense>;

function layerNorm(weights: Weights): (x: tf.Tensor2D) => tf.Tensor2D {
  const gain = weights.constant(width, 1);
  const offset = weights.constant(width, 0);
  return (x) => {
    const { mean, variance } = tf.moments(x, -1, true);
    return x.sub(mean).div(variance.add(1e-5).sqrt()).mul(gain).add(offset);
  };
}
