// The state of an optimizer becomes that of one rank, on all ranks: accumulators (momentum, Adam's moments …), the count
// of steps, learning rate and other numbers. The root may have been restored from a file while the others are fresh:
// accumulators are made, replaced or removed as needed, and old ones disposed.
//
// TensorFlow.js has getWeights() and setWeights() for this, but they are asynchronous, leak the old accumulators, and
// are not there for Adamax. The fields below are those that all its optimizers have in common:
//
//   accumulated…, accumulations   lists of { originalName, variable }, by place in the list of variables; may have gaps
//   accBeta1, accBeta2, iteration variables of one number
//   iterations_, learningRate …   plain numbers
//
// Accumulators that are sharded over the ranks are one state of all of them already and stay as they are; the rest travels.

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../errors.ts';
import { type CollectiveOptions, labelOf } from '../../operations/options.ts';
import { describe } from '../../tensor/tensor.ts';
import { type BothForms, run, runSync } from '../both-forms.ts';
import { globalProcessSet, rank } from '../context.ts';
import { type Accumulators, type Fields, isAccumulators, type OptimizerVariable } from './accumulators.ts';
import { checkRoot, exchange } from './broadcast-variables.ts';
import { getMomentum, setLearningRate, setMomentum } from './learning-rate.ts';
import { forgetSharding, shardingOf } from './optimizer/sharded/state.ts';
import { broadcastSlots, type Slot, type SlotDtype } from './packed-broadcast.ts';
import { dtypeOf } from './tensor-access.ts';
import { assignAndDispose } from './tensor-operands.ts';

/** Gives every rank's optimizer the state of the root's: accumulators, count of steps, learning rate. */
export async function broadcastOptimizerState(
  optimizer: tf.Optimizer,
  rootRank: number,
  options: CollectiveOptions = {},
): Promise<void> {
  await run(broadcastState(optimizer, rootRank, options));
}

/** The blocking form of broadcastOptimizerState(). */
export function broadcastOptimizerStateSync(
  optimizer: tf.Optimizer,
  rootRank: number,
  options: CollectiveOptions = {},
): void {
  runSync(broadcastState(optimizer, rootRank, options));
}

function* broadcastState(
  optimizer: tf.Optimizer,
  rootRank: number,
  options: CollectiveOptions,
): BothForms<void> {
  const what = labelOf('broadcastOptimizerState', options);
  const fields = fieldsOf(optimizer, rootRank, options, what);
  const offers = yield* exchange(offerOf(optimizer, fields, rootRank, what), options);
  const state = agreedState(offers, rootRank, options, what);
  yield* broadcastSlots(slotsOf(optimizer, fields, state), rootRank, options);
  if (rank() !== rootRank) applyNumbers(optimizer, state.numbers);
}

interface SlotDescription {
  readonly originalName: string;
  readonly shape: readonly number[];
  readonly dtype: SlotDtype;
}

/** The root's optimizer without its values. */
interface State {
  readonly lists: { readonly field: string; readonly slots: readonly (SlotDescription | null)[] }[];
  readonly variables: {
    readonly field: string;
    readonly shape: readonly number[];
    readonly dtype: SlotDtype;
  }[];
  readonly numbers: Readonly<Record<string, number>>;
}

interface Offer {
  readonly className: string;
  readonly state: State | undefined;
}

const numberFields = [
  'iterations_',
  'learningRate',
  'momentum',
  'decay',
  'rho',
  'beta1',
  'beta2',
  'epsilon',
  'initialAccumulatorValue',
];

function fieldsOf(
  optimizer: tf.Optimizer,
  rootRank: number,
  options: CollectiveOptions,
  what: string,
): Fields {
  if (typeof optimizer !== 'object' || optimizer === null || !(optimizer instanceof tf.Optimizer)) {
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what} takes an optimizer of TensorFlow.js, not ${describe(optimizer)}.`,
    );
  }
  checkRoot(rootRank, options, what);
  return optimizer as unknown as Fields;
}

function offerOf(optimizer: tf.Optimizer, fields: Fields, rootRank: number, what: string): Offer {
  const className = optimizer.getClassName();
  if (rank() !== rootRank) return { className, state: undefined };
  const lists: State['lists'] = [];
  const variables: State['variables'] = [];
  for (const [field, value] of Object.entries(fields)) {
    if (isAccumulators(field, value)) {
      if (shardingOf(optimizer) !== undefined) continue;
      const slots = Array.from(value, (entry) =>
        entry == null
          ? null
          : {
              originalName: entry.originalName,
              shape: entry.variable.shape,
              dtype: dtypeOf(entry.variable, what) as SlotDtype,
            },
      );
      lists.push({ field, slots });
    } else if (value instanceof tf.Variable) {
      variables.push({ field, shape: value.shape, dtype: dtypeOf(value, what) as SlotDtype });
    }
  }
  const numbers = numberFields.flatMap((field) => {
    const value = field === 'iterations_' ? optimizer.iterations : fields[field];
    return typeof value === 'number' ? [[field, value]] : [];
  });
  return { className, state: { lists, variables, numbers: Object.fromEntries(numbers) } };
}

/** Every rank's optimizer must be of the root's class; then the root's state is what all shall have. */
function agreedState(
  offers: readonly Offer[],
  rootRank: number,
  options: CollectiveOptions,
  what: string,
): State {
  const { ranks } = options.processSet ?? globalProcessSet;
  const root = offers[ranks.indexOf(rootRank)] as Offer;
  const other = offers.findIndex(({ className }) => className !== root.className);
  if (other >= 0) {
    throw new HorovodError(
      'ERR_HVD_MISMATCH',
      `${what}: rank ${rootRank} has an optimizer ${root.className}, rank ${ranks[other]} one of ${offers[other]?.className}. ` +
        'Make the same optimizer on every rank.',
      { rank: ranks[other] },
    );
  }
  if (root.state !== undefined) return root.state;
  throw new HorovodError(
    'ERR_HVD_MISMATCH',
    `${what}: the ranks name different roots; here it is rank ${rootRank}.`,
    { rank: rootRank },
  );
}

function slotsOf(optimizer: tf.Optimizer, fields: Fields, state: State): Slot[] {
  const slots: Slot[] = [];
  // The root's state is full, so everybody's will be.
  if (state.lists.length > 0) forgetSharding(optimizer);
  for (const { field, slots: wanted } of state.lists) {
    const list = fitted(fields, field, wanted);
    wanted.forEach((description, i) => {
      if (description === null) return;
      const { originalName, shape, dtype } = description;
      slots.push({
        shape,
        dtype,
        read: () => (list[i] as OptimizerVariable).variable,
        receive(value) {
          const entry = list[i];
          if (entry == null) list[i] = { originalName, variable: variableWith(value) };
          else assignAndDispose(entry.variable, value);
        },
      });
    });
  }
  for (const { field, shape, dtype } of state.variables) {
    slots.push({
      shape,
      dtype,
      read: () => fields[field] as tf.Variable,
      receive(value) {
        const variable = fields[field];
        if (variable instanceof tf.Variable) assignAndDispose(variable, value);
        else fields[field] = variableWith(value);
      },
    });
  }
  return slots;
}

/** The list with entries only where the root has some of the same shape; the others are disposed. */
function fitted(fields: Fields, field: string, wanted: readonly (SlotDescription | null)[]): Accumulators {
  const old = fields[field];
  const list = isAccumulators(field, old) ? old : [];
  fields[field] = list;
  for (let i = 0; i < Math.max(list.length, wanted.length); i++) {
    const [entry, description] = [list[i], wanted[i]];
    if (entry == null || (description != null && isLike(entry.variable, description))) continue;
    entry.variable.dispose();
    list[i] = undefined;
  }
  list.length = wanted.length;
  return list;
}

function isLike({ shape, dtype }: tf.Variable, wanted: SlotDescription): boolean {
  return (
    dtype === wanted.dtype &&
    shape.length === wanted.shape.length &&
    shape.every((n, i) => n === wanted.shape[i])
  );
}

function variableWith(value: tf.Tensor): tf.Variable {
  const variable = tf.variable(value, false);
  value.dispose();
  return variable;
}

function applyNumbers(optimizer: tf.Optimizer, numbers: State['numbers']): void {
  const fields = optimizer as unknown as Fields;
  for (const [field, value] of Object.entries(numbers)) {
    if (fields[field] === value) continue;
    if (field === 'learningRate') setLearningRate(optimizer, value);
    else if (field === 'momentum' && getMomentum(optimizer) !== undefined) setMomentum(optimizer, value);
    else fields[field] = value;
  }
}
