// A two-layer network with handwritten backpropagation: pixels → hidden (ReLU) → classes (softmax).
// Nothing in this file is distributed. Weights and gradients are plain Float32Arrays, which is all that Horovod needs.

import { classes, pixels, randomNumbers } from './digits.ts';

export interface Network {
  readonly hidden: number;
  /** Weights and biases of the first layer, then of the second. Row-major, one row per input. */
  readonly weights: readonly [Float32Array, Float32Array, Float32Array, Float32Array];
}

export function createNetwork(hidden: number, seed: number): Network {
  const random = randomNumbers(seed);
  const layer = (inputs: number, outputs: number): Float32Array =>
    Float32Array.from({ length: inputs * outputs }, () => (2 * random() - 1) * Math.sqrt(6 / inputs));
  const weights = [
    layer(pixels, hidden),
    new Float32Array(hidden),
    layer(hidden, classes),
    new Float32Array(classes),
  ];
  return { hidden, weights: weights as [Float32Array, Float32Array, Float32Array, Float32Array] };
}

/** Buffers for batches of a fixed size, so that training does not allocate memory. */
export interface Workspace {
  readonly hiddenValues: Float32Array;
  readonly hiddenErrors: Float32Array;
  /** After `forward`: the probability of each class. After `backward`: the error of each class. */
  readonly outputs: Float32Array;
}

export function createWorkspace(network: Network, batchSize: number): Workspace {
  return {
    hiddenValues: new Float32Array(batchSize * network.hidden),
    hiddenErrors: new Float32Array(batchSize * network.hidden),
    outputs: new Float32Array(batchSize * classes),
  };
}

/** Fills `space.outputs` with the class probabilities of `count` images. */
export function forward(
  { hidden, weights }: Network,
  images: Float32Array,
  count: number,
  space: Workspace,
): void {
  const [weights1, biases1, weights2, biases2] = weights;
  const { hiddenValues, outputs } = space;
  multiply(images, weights1, biases1, hiddenValues, count, pixels, hidden);
  for (let i = 0; i < count * hidden; i++) {
    if ((hiddenValues[i] as number) < 0) hiddenValues[i] = 0;
  }
  multiply(hiddenValues, weights2, biases2, outputs, count, hidden, classes);
  for (let i = 0; i < count; i++) softmax(outputs.subarray(i * classes, (i + 1) * classes));
}

/** Writes the gradients of the mean loss and returns the loss. Call it after `forward`. */
export function backward(
  { hidden, weights }: Network,
  images: Float32Array,
  labels: Uint8Array,
  count: number,
  space: Workspace,
  gradients: readonly Float32Array[],
): number {
  const [gradients1, biasGradients1, gradients2, biasGradients2] = gradients as Network['weights'];
  const { hiddenValues, hiddenErrors, outputs } = space;
  let loss = 0;
  for (let i = 0; i < count; i++) {
    const right = i * classes + (labels[i] as number);
    loss -= Math.log(Math.max(outputs[right] as number, 1e-12)) / count;
    outputs[right] = (outputs[right] as number) - 1;
  }
  for (let i = 0; i < count * classes; i++) outputs[i] = (outputs[i] as number) / count;

  accumulate(hiddenValues, outputs, gradients2, biasGradients2, count, hidden, classes);
  for (let i = 0; i < count; i++) {
    for (let h = 0; h < hidden; h++) {
      let error = 0;
      if ((hiddenValues[i * hidden + h] as number) > 0) {
        for (let c = 0; c < classes; c++) {
          error += (outputs[i * classes + c] as number) * (weights[2][h * classes + c] as number);
        }
      }
      hiddenErrors[i * hidden + h] = error;
    }
  }
  accumulate(images, hiddenErrors, gradients1, biasGradients1, count, pixels, hidden);
  return loss;
}

/** Momentum: velocity = 0.9 · velocity + gradient; weight -= rate · velocity. */
export function update(
  network: Network,
  gradients: readonly Float32Array[],
  velocities: readonly Float32Array[],
  rate: number,
): void {
  network.weights.forEach((weights, layer) => {
    const [gradient, velocity] = [gradients[layer] as Float32Array, velocities[layer] as Float32Array];
    for (let i = 0; i < weights.length; i++) {
      const step = 0.9 * (velocity[i] as number) + (gradient[i] as number);
      velocity[i] = step;
      weights[i] = (weights[i] as number) - rate * step;
    }
  });
}

/** Counts the images whose most likely class is their label. */
export function countCorrect(
  network: Network,
  images: Float32Array,
  labels: Uint8Array,
  count: number,
): number {
  const space = createWorkspace(network, count);
  forward(network, images, count, space);
  let correct = 0;
  for (let i = 0; i < count; i++) {
    const likelihoods = space.outputs.subarray(i * classes, (i + 1) * classes);
    if (likelihoods.indexOf(Math.max(...likelihoods)) === labels[i]) correct++;
  }
  return correct;
}

// outputs[count × to] = inputs[count × from] · weights[from × to] + biases. The inner loop reads and writes consecutive
// memory, which is fast.
function multiply(
  inputs: Float32Array,
  weights: Float32Array,
  biases: Float32Array,
  outputs: Float32Array,
  count: number,
  from: number,
  to: number,
): void {
  for (let i = 0; i < count; i++) {
    const row = i * to;
    for (let o = 0; o < to; o++) outputs[row + o] = biases[o] as number;
    for (let f = 0; f < from; f++) {
      const value = inputs[i * from + f] as number;
      if (value === 0) continue;
      const start = f * to;
      for (let o = 0; o < to; o++) {
        outputs[row + o] = (outputs[row + o] as number) + value * (weights[start + o] as number);
      }
    }
  }
}

// gradients[from × to] = inputsᵀ · errors; biasGradients[to] = column sums of errors.
function accumulate(
  inputs: Float32Array,
  errors: Float32Array,
  gradients: Float32Array,
  biasGradients: Float32Array,
  count: number,
  from: number,
  to: number,
): void {
  gradients.fill(0);
  biasGradients.fill(0);
  for (let i = 0; i < count; i++) {
    const row = i * to;
    for (let o = 0; o < to; o++)
      biasGradients[o] = (biasGradients[o] as number) + (errors[row + o] as number);
    for (let f = 0; f < from; f++) {
      const value = inputs[i * from + f] as number;
      if (value === 0) continue;
      const start = f * to;
      for (let o = 0; o < to; o++) {
        gradients[start + o] = (gradients[start + o] as number) + value * (errors[row + o] as number);
      }
    }
  }
}

function softmax(values: Float32Array): void {
  const largest = Math.max(...values);
  let sum = 0;
  for (let i = 0; i < values.length; i++) {
    values[i] = Math.exp((values[i] as number) - largest);
    sum += values[i] as number;
  }
  for (let i = 0; i < values.length; i++) values[i] = (values[i] as number) / sum;
}
