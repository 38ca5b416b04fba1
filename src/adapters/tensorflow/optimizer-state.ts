// The state of an optimizer becomes that of one rank, on all ranks: accumulators (momentum, Adam's moments …), the count
// of steps, learning rate and other numbers. The root may have been restored from a file while the others are new:
// accumulators are made, replaced or removed as needed, and old ones disposed.
//
// TensorFlow.js has getWeights() and setWeights() for this, but they are asynchronous, leak the old accumulators, and
// do not exist for Adamax. All its optimizers have these fields in common:
//
//   accumulated…, accumulations   lists of { originalName, variable }, by place in the list of variables; may have gaps
//   accBeta1, accBeta2, iteration variables of one number
//   iterations_, learningRate …   plain numbers
//
// Accumulators that are sharded over the ranks are not sent: together they are one state already.

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../errors.ts';
import { type CollectiveOptions, labelOf } from '../../operations/options.ts';
import { type BothForms, run, runSync } from '../both-forms.ts';
import { globalProcessSet, rank } from '../context.ts';
import {
  type Accumulators,
  checkOptimizer,
  type Fields,
  isAccumulators,
  type OptimizerVariable,
} from './accumulators.ts';
import { checkRoot, exchange } from './broadcast-variables.ts';
import { getMomentum, setLearningRate, setMomentum } from './learning-rate.ts';
import { forgetSharding, shardingOf } from './optimizer/sharded/state.ts';
import { broadcastSlots, type Slot, type SlotDtype } from './packed-broadcast.ts';
import { dtypeOf } from './tensor-access.ts';
import { assignAndDispose } from './tensor-operands.ts';
import { isAlike } from './variable-lists.ts';

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

/** The same without the lists of accumulators. */
export async function broadcastOptimizerNumbers(optimizer: tf.Optimizer, rootRank: number): Promise<void> {
  await run(broadcastState(optimizer, rootRank, {}, false));
}

function* broadcastState(
  optimizer: tf.Optimizer,
  rootRank: number,
  options: CollectiveOptions,
  hasLists = true,
): BothForms<void> {
  const what = labelOf('broadcastOptimizerState', options);
  checkOptimizer(optimizer, what);
  checkRoot(rootRank, options, what);
  const fields = optimizer as unknown as Fields;
  const offers = yield* exchange(offerOf(optimizer, fields, rootRank, what, hasLists), options);
  const state = agreedState(offers, rootRank, options, what);
  yield* broadcastSlots(slotsOf(optimizer, fields, state), rootRank, options);
  if (rank() !== rootRank) applyNumbers(optimizer, state.numbers);
}

type SlotShape = Pick<Slot, 'shape' | 'dtype'>;
type AccumulatorShape = SlotShape & { readonly originalName: string };

/** The root's optimizer without its values. */
interface State {
  readonly lists: { readonly field: string; readonly slots: readonly (AccumulatorShape | null)[] }[];
  readonly variables: (SlotShape & { readonly field: string })[];
  readonly numbers: Readonly<Record<string, number>>;
}

interface Offer {
  readonly className: string;
  readonly state: State | undefined;
}

/** Plain numbers of the optimizers of TensorFlow.js. */
export const numberFields: readonly string[] = [
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

function offerOf(
  optimizer: tf.Optimizer,
  fields: Fields,
  rootRank: number,
  what: string,
  hasLists: boolean,
): Offer {
  const className = optimizer.getClassName();
  if (rank() !== rootRank) return { className, state: undefined };
  const lists: State['lists'] = [];
  const variables: State['variables'] = [];
  for (const [field, value] of Object.entries(fields)) {
    if (isAccumulators(field, value)) {
      if (!hasLists || shardingOf(optimizer) !== undefined) continue;
      const slots = Array.from(value, (entry) =>
        entry == null ? null : { originalName: entry.originalName, ...shapeOf(entry.variable, what) },
      );
      lists.push({ field, slots });
    } else if (value instanceof tf.Variable) {
      variables.push({ field, ...shapeOf(value, what) });
    }
  }
  return { className, state: { lists, variables, numbers: numbersOf(optimizer) } };
}

/** Learning rate, count of steps and other plain numbers, by field. */
export function numbersOf(optimizer: tf.Optimizer): Readonly<Record<string, number>> {
  const fields = optimizer as unknown as Fields;
  const numbers = numberFields.flatMap((field) => {
    const value = field === 'iterations_' ? optimizer.iterations : fields[field];
    return typeof value === 'number' ? [[field, value]] : [];
  });
  return Object.fromEntries(numbers);
}

function shapeOf(variable: tf.Variable, what: string): SlotShape {
  return { shape: variable.shape, dtype: dtypeOf(variable, what) as SlotDtype };
}

/** The root's state. Every rank's optimizer must be of the root's class. */
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
    `${what}: the ranks have different roots; here it is rank ${rootRank}.`,
    { rank: rootRank },
  );
}

function slotsOf(optimizer: tf.Optimizer, fields: Fields, state: State): Slot[] {
  const slots: Slot[] = [];
  // The root's state is full, so every rank's will be.
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
function fitted(fields: Fields, field: string, wanted: readonly (SlotShape | null)[]): Accumulators {
  const old = fields[field];
  const list = isAccumulators(field, old) ? old : [];
  fields[field] = list;
  for (let i = 0; i < Math.max(list.length, wanted.length); i++) {
    const [entry, description] = [list[i], wanted[i]];
    if (entry == null || (description != null && isAlike(entry.variable, description))) continue;
    entry.variable.dispose();
    list[i] = undefined;
  }
  list.length = wanted.length;
  return list;
}

/** Takes the tensor. */
export function variableWith(value: tf.Tensor): tf.Variable {
  const variable = tf.variable(value, false);
  value.dispose();
  return variable;
}

/** Sets what numbersOf() returned. */
export function applyNumbers(optimizer: tf.Optimizer, numbers: State['numbers']): void {
  const fields = optimizer as unknown as Fields;
  for (const [field, value] of Object.entries(numbers)) {
    if (fields[field] === value) continue;
    if (field === 'learningRate') setLearningRate(optimizer, value);
    else if (field === 'momentum' && getMomentum(optimizer) !== undefined) setMomentum(optimizer, value);
    else fields[field] = value;
  }
}
