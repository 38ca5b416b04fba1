// Variables become those of one rank, on all ranks: before training, so that all start from the same weights.
//
// Variables are matched by their place in the list, not by their name: TensorFlow.js numbers layers per process
// (dense_Dense1, dense_Dense2 …), so a rank that has built one model more has other names. Shapes and dtypes are
// compared on all ranks before anything moves. Values are assigned, never written into a weight's memory: the WASM
// backend keeps packed copies of weights by tensor, which would go stale.

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../errors.ts';
import { allgatherObject, allgatherObjectSync } from '../../operations/collectives.ts';
import { type CollectiveOptions, labelOf } from '../../operations/options.ts';
import { describe } from '../../tensor/tensor.ts';
import { type BothForms, run, runSync, wait } from '../both-forms.ts';
import { currentContext, globalProcessSet, rank } from '../context.ts';
import { broadcastSlots, type Slot, type SlotDtype } from './packed-broadcast.ts';
import { dtypeOf } from './tensor-access.ts';
import { assignAndDispose, variableOf } from './tensor-operands.ts';

/** Variables as users have them; a model stands for all its weights, moving averages included. */
export type VariableList =
  | readonly (tf.Variable | tf.LayerVariable)[]
  | tf.Variable
  | tf.LayerVariable
  | tf.LayersModel
  | tf.layers.Layer;

/** Gives every rank the root's values of these variables. The root's own are not touched. */
export async function broadcastVariables(
  variables: VariableList,
  rootRank: number,
  options: CollectiveOptions = {},
): Promise<void> {
  await run(broadcastGiven(variables, rootRank, options));
}

/** The blocking form of broadcastVariables(). */
export function broadcastVariablesSync(
  variables: VariableList,
  rootRank: number,
  options: CollectiveOptions = {},
): void {
  runSync(broadcastGiven(variables, rootRank, options));
}

/**
 * broadcastVariables() of every variable that TensorFlow.js knows in this process: weights of all models, optimizers'
 * accumulators, variables of your own. They are matched in the order in which they were made (those without a name
 * first), so every rank must have made the same ones. Where ranks differ on purpose, say which ones you mean with
 * broadcastVariables() and broadcastOptimizerState().
 */
export async function broadcastGlobalVariables(
  rootRank: number,
  options: CollectiveOptions = {},
): Promise<void> {
  await run(broadcastAll(rootRank, options));
}

/** The blocking form of broadcastGlobalVariables(). */
export function broadcastGlobalVariablesSync(rootRank: number, options: CollectiveOptions = {}): void {
  runSync(broadcastAll(rootRank, options));
}

/** What the ranks compare. */
interface Description {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: SlotDtype;
}

/**
 * The same list on every rank: how the first rank that differs from the first rank of the set does so, or undefined.
 * Every rank finds the same answer.
 */
export function firstDifference(
  lists: readonly (readonly Description[])[],
  ranks: readonly number[],
): { text: string; rank: number; name: string } | undefined {
  const [model, ...others] = lists as [readonly Description[], ...(readonly Description[])[]];
  const length = Math.max(...lists.map((list) => list.length));
  for (let i = 0; i < length; i++) {
    for (const [place, list] of others.entries()) {
      const [a, b] = [model[i], list[i]];
      if (a === b || (a !== undefined && b !== undefined && isAlike(a, b))) continue;
      const [first, second] = [ranks[0] as number, ranks[place + 1] as number];
      const text = `variable ${i + 1} is ${told(a, model)} on rank ${first} and ${told(b, list)} on rank ${second}`;
      return { text, rank: second, name: (a ?? b)?.name ?? '' };
    }
  }
  return undefined;
}

function told(description: Description | undefined, list: readonly Description[]): string {
  if (description === undefined) return `missing (there are ${list.length})`;
  return `"${description.name}", ${description.dtype} [${description.shape.join(', ')}],`;
}

function isAlike(a: Description, b: Description): boolean {
  return (
    a.dtype === b.dtype && a.shape.length === b.shape.length && a.shape.every((n, i) => n === b.shape[i])
  );
}

function* broadcastGiven(
  variables: VariableList,
  rootRank: number,
  options: CollectiveOptions,
): BothForms<void> {
  const what = labelOf('broadcastVariables', options);
  yield* broadcastList(variablesOf(variables, what), rootRank, options, what);
}

function* broadcastAll(rootRank: number, options: CollectiveOptions): BothForms<void> {
  const variables = Object.values(tf.engine().registeredVariables);
  yield* broadcastList(variables, rootRank, options, labelOf('broadcastGlobalVariables', options));
}

function* broadcastList(
  variables: readonly tf.Variable[],
  rootRank: number,
  options: CollectiveOptions,
  what: string,
): BothForms<void> {
  const slots = slotsOf(variables, rootRank, options, what);
  checkAlike(yield* exchange(slots.map(descriptionOf), options), options, what);
  yield* broadcastSlots(slots, rootRank, options);
}

/** An operation with its own name: before anything is sent, every rank sees what the others have. */
export function* exchange<T>(value: T, options: CollectiveOptions): BothForms<T[]> {
  const context = currentContext();
  const name = options.name === undefined ? undefined : `${options.name}.check`;
  return yield* wait(
    () => allgatherObjectSync(context, value, { ...options, name }),
    () => allgatherObject(context, value, { ...options, name }),
  );
}

function slotsOf(
  variables: readonly tf.Variable[],
  rootRank: number,
  options: CollectiveOptions,
  what: string,
): (Slot & Description)[] {
  checkRoot(rootRank, options, what);
  return variables.map((variable) => ({
    name: variable.name,
    shape: variable.shape,
    dtype: dtypeOf(variable, what) as SlotDtype,
    read: () => variable,
    receive: (value) => assignAndDispose(variable, value),
  }));
}

function descriptionOf({ name, shape, dtype }: Description): Description {
  return { name, shape, dtype };
}

function checkAlike(
  lists: readonly (readonly Description[])[],
  options: CollectiveOptions,
  what: string,
): void {
  const { ranks } = options.processSet ?? globalProcessSet;
  const difference = firstDifference(lists, ranks);
  if (difference === undefined) return;
  throw new HorovodError(
    'ERR_HVD_MISMATCH',
    `${what}: the ranks' variables differ: ${difference.text}. Nothing was sent. ` +
      'Build the same model in the same way on every rank; shapes must not depend on a rank’s data.',
    { rank: difference.rank, tensor: difference.name },
  );
}

/** Found before the first message, so that no rank waits for one that has thrown. */
export function checkRoot(rootRank: number, options: CollectiveOptions, what: string): void {
  const { ranks } = options.processSet ?? globalProcessSet;
  rank(); // not initialized: says so
  if (ranks.includes(rootRank)) return;
  throw new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `${what}: root rank ${describe(rootRank)} is not one of the ranks of the process set, ${ranks.join(', ')}.`,
  );
}

function variablesOf(variables: VariableList, what: string): tf.Variable[] {
  if (variables instanceof tf.Tensor || variables instanceof tf.LayerVariable) {
    return [checkedVariable(variables, what)];
  }
  if (Array.isArray(variables)) {
    return (variables as readonly tf.Variable[]).map((variable) => checkedVariable(variable, what));
  }
  if (variables instanceof tf.layers.Layer) {
    const { weights } = variables;
    if (weights.length > 0) return weights.map((weight) => variableOf(weight, what));
    throw new HorovodError(
      'ERR_HVD_INVALID_ARGUMENT',
      `${what}: ${variables.name} has no weights, or none yet: a layer gets them when it is built or first applied.`,
    );
  }
  throw new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `${what} takes a model, or a list of tf.Variable or LayerVariable, not ${describe(variables)}.`,
  );
}

function checkedVariable(variable: tf.Variable | tf.LayerVariable, what: string): tf.Variable {
  const isVariable = variable instanceof tf.Variable || variable instanceof tf.LayerVariable;
  const found = isVariable ? variableOf(variable, what) : undefined;
  if (found !== undefined && !found.isDisposed) return found;
  throw new HorovodError(
    'ERR_HVD_INVALID_ARGUMENT',
    `${what} takes tf.Variable and LayerVariable, not ${found === undefined ? describe(variable) : 'one that has been disposed'}.`,
  );
}
