// The updates of TensorFlow.js' optimizers SGD, momentum, Adam, RMSProp and Adagrad in one pass over each variable instead of about ten
// kernels, on the wasm backend. The optimizers keep their classes, their state and their results, within rounding.
//
// A pass writes to new memory, which the variable then gets: whoever refers to the old values, such as the last commit of an
// elastic job, still has them, and XNNPACK does not use a packed copy of old weights.

import * as tf from '@tensorflow/tfjs';
import { type CompiledKernels, compiledKernels } from './compiled-kernels.ts';
import { offsets, type WasmBackend } from './kernel.ts';

type Gradients = Parameters<tf.Optimizer['applyGradients']>[0];

/** What an optimizer keeps for one variable. */
interface Slot {
  originalName: string;
  variable: tf.Variable;
}

/** Fields of TensorFlow.js' optimizers, which are declared protected or private. */
interface Fields {
  learningRate: number;
  c: tf.Scalar;
  m: tf.Scalar;
  useNesterov: boolean;
  accumulations: Slot[];
  accumulatedFirstMoment: Slot[];
  accumulatedSecondMoment: Slot[];
  accBeta1: tf.Variable;
  accBeta2: tf.Variable;
  beta1: number;
  beta2: number;
  epsilon: number;
  decay: number;
  momentum: number;
  centered: boolean;
  accumulatedMeanSquares: Slot[];
  accumulatedMoments: Slot[];
  accumulatedMeanGrads: Slot[];
  accumulatedGrads: Slot[];
  initialAccumulatorValue: number;
  incrementIterations(): void;
}

/** One variable, its place in the list and its gradient; undefined: it has none in this step. */
interface Step {
  readonly index: number;
  readonly value: tf.Variable;
  readonly gradient: tf.Tensor | undefined;
}

interface Update {
  /** The state that a variable needs even in a step without a gradient: list, suffix of the name, first value. */
  readonly state: (fields: Fields) => readonly (readonly [list: Slot[], suffix: string, start: number])[];
  /** Returns what computes one step: `outputs` are the new values of the variable and of its state, `inputs` the old ones. */
  readonly begin: (
    fields: Fields,
    kernels: CompiledKernels,
  ) => (outputs: number[], inputs: number[], gradient: number, count: number) => void;
  readonly end?: (fields: Fields) => void;
}

const sgd: Update = {
  state: () => [],
  begin: ({ c }, { sgdUpdate }) => {
    const rate = scalarOf(c);
    return (outputs, inputs, gradient, count) => sgdUpdate(...outputs, ...inputs, gradient, count, rate);
  },
};

const momentum: Update = {
  state: ({ accumulations }) => [[accumulations, 'momentum', 0]],
  begin: ({ c, m, useNesterov }, { momentumUpdate }) => {
    const last = [scalarOf(c), scalarOf(m), useNesterov ? 1 : 0];
    return (outputs, inputs, gradient, count) =>
      momentumUpdate(...outputs, ...inputs, gradient, count, ...last);
  },
};

const adam: Update = {
  state: (fields) => [
    [fields.accumulatedFirstMoment, 'm', 0],
    [fields.accumulatedSecondMoment, 'v', 0],
  ],
  begin: ({ learningRate, beta1, beta2, accBeta1, accBeta2, epsilon }, { adamUpdate }) => {
    const corrections = [accBeta1, accBeta2].map((power) => Math.fround(1 - scalarOf(power)));
    const last = [-learningRate, beta1, beta2, 1 - beta1, 1 - beta2, ...corrections, epsilon];
    return (outputs, inputs, gradient, count) => adamUpdate(...outputs, ...inputs, gradient, count, ...last);
  },
  end: ({ accBeta1, accBeta2, beta1, beta2 }) =>
    tf.tidy(() => {
      accBeta1.assign(tf.mul(accBeta1, beta1));
      accBeta2.assign(tf.mul(accBeta2, beta2));
    }),
};

const rmsProp: Update = {
  state: (fields) => [
    [fields.accumulatedMeanSquares, 'rms', 0],
    [fields.accumulatedMoments, 'momentum', 0],
    ...(fields.centered ? ([[fields.accumulatedMeanGrads, 'mg', 0]] as const) : []),
  ],
  begin: ({ learningRate, decay, momentum: share, epsilon, centered }, { rmsPropUpdate }) => {
    const last = [learningRate, decay, 1 - decay, share, epsilon, centered ? 1 : 0];
    // If there is no mean of gradients, the kernel does not use its place.
    const withMean = (offsetsOfState: number[]) =>
      centered ? offsetsOfState : [...offsetsOfState, offsetsOfState[1] as number];
    return (outputs, inputs, gradient, count) =>
      rmsPropUpdate(...withMean(outputs), ...withMean(inputs), gradient, count, ...last);
  },
};

const adagrad: Update = {
  state: ({ accumulatedGrads, initialAccumulatorValue }) => [
    [accumulatedGrads, 'accumulator', initialAccumulatorValue],
  ],
  begin: ({ learningRate }, { adagradUpdate }) => {
    const last = [-learningRate, tf.backend().epsilon()];
    return (outputs, inputs, gradient, count) =>
      adagradUpdate(...outputs, ...inputs, gradient, count, ...last);
  },
};

/** From now on, on every instance and subclass. Call it once. */
export function installUpdates(): void {
  patch(tf.SGDOptimizer, sgd);
  patch(tf.MomentumOptimizer, momentum);
  patch(tf.AdamOptimizer, adam);
  patch(tf.RMSPropOptimizer, rmsProp);
  patch(tf.AdagradOptimizer, adagrad);
}

function patch({ prototype }: { prototype: tf.Optimizer }, update: Update): void {
  const { applyGradients } = prototype;
  prototype.applyGradients = function (this: tf.Optimizer, gradients: Gradients): void {
    const kernels =
      tf.getBackend() === 'wasm' ? compiledKernels(tf.backend() as unknown as WasmBackend) : undefined;
    const steps = kernels && stepsOf(gradients);
    if (steps) run(update, this as unknown as Fields, kernels, steps);
    else applyGradients.call(this, gradients);
  };
}

/** Undefined if there are values of another type, which the original updates. */
function stepsOf(gradients: Gradients): Step[] | undefined {
  const { registeredVariables } = tf.engine();
  const list = Array.isArray(gradients)
    ? gradients
    : Object.entries(gradients).map(([name, tensor]) => ({ name, tensor }));
  const steps = list.map(({ name, tensor }, index) => {
    return { index, value: registeredVariables[name] as tf.Variable, gradient: tensor ?? undefined };
  });
  const isFloat = ({ value, gradient }: Step) =>
    value?.dtype === 'float32' &&
    (gradient === undefined || (gradient.dtype === 'float32' && gradient.size === value.size));
  return steps.every(isFloat) ? steps : undefined;
}

function run(update: Update, fields: Fields, kernels: CompiledKernels, steps: readonly Step[]): void {
  const backend = tf.backend() as unknown as WasmBackend;
  const compute = update.begin(fields, kernels);
  const lists = update.state(fields);
  for (const { index, value, gradient } of steps) {
    const state = lists.map(([list, suffix, start]) => {
      list[index] ??= { originalName: `${value.name}/${suffix}`, variable: filled(value.shape, start) };
      return list[index].variable;
    });
    if (gradient === undefined) continue;
    const variables = [value, ...state];
    const outputs = variables.map(({ shape }) => backend.makeOutput(shape, 'float32'));
    const all = offsets(backend, ...outputs, ...variables, gradient);
    const count = variables.length;
    compute(all.slice(0, count), all.slice(count, 2 * count), all[2 * count] as number, value.size);
    for (const [i, variable] of variables.entries()) give(variable, outputs[i] as tf.TensorInfo);
  }
  update.end?.(fields);
  fields.incrementIterations();
}

function filled(shape: number[], start: number): tf.Variable {
  return tf.tidy(() => tf.fill(shape, start).variable(false));
}

/** The variable's values are these from now on. */
function give(variable: tf.Variable, info: tf.TensorInfo): void {
  const tensor = tf.engine().makeTensorFromTensorInfo(info);
  variable.assign(tensor);
  tensor.dispose();
}

function scalarOf(scalar: tf.Tensor): number {
  return scalar.dataSync()[0] as number;
}
