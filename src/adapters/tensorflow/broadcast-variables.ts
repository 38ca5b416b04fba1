// Variables become those of one rank, on all ranks: before training, so that all start from the same weights. Shapes and dtypes
// are compared before anything is sent (variable-lists.ts). Values are assigned, never written into a weight's memory: the
// WASM backend keeps packed copies of weights by tensor, which would go stale.

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../errors.ts';
import { invalid } from '../../operations/check-options.ts';
import { allgatherObject, allgatherObjectSync } from '../../operations/collectives.ts';
import { type CollectiveOptions, labelOf } from '../../operations/options.ts';
import { describe } from '../../tensor/tensor.ts';
import { type BothForms, run, runSync, wait } from '../both-forms.ts';
import { currentContext, globalProcessSet } from '../context.ts';
import { noteBroadcast } from './broadcast-notes.ts';
import { broadcastSlots, type Slot, type SlotDtype } from './packed-broadcast.ts';
import { dtypeOf } from './tensor-access.ts';
import { assignAndDispose, variableOf } from './tensor-operands.ts';
import { describeVariable, firstDifference } from './variable-lists.ts';

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
 * accumulators, your own variables. They are matched in the order in which they were made (those without a name first), so
 * every rank must have made the same ones. Where ranks differ on purpose, use broadcastVariables() and
 * broadcastOptimizerState() with the ones you mean.
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

function* broadcastGiven(
  variables: VariableList,
  rootRank: number,
  options: CollectiveOptions,
): BothForms<void> {
  const what = labelOf('broadcastVariables', options);
  yield* noted(variablesOf(variables, what), rootRank, options, what);
}

function* broadcastAll(rootRank: number, options: CollectiveOptions): BothForms<void> {
  const variables = Object.values(tf.engine().registeredVariables);
  yield* noted(variables, rootRank, options, labelOf('broadcastGlobalVariables', options));
}

function noted(
  variables: readonly tf.Variable[],
  rootRank: number,
  options: CollectiveOptions,
  what: string,
): BothForms<void> {
  return noteBroadcast(variables, options.processSet, broadcastList(variables, rootRank, options, what));
}

function* broadcastList(
  variables: readonly tf.Variable[],
  rootRank: number,
  options: CollectiveOptions,
  what: string,
): BothForms<void> {
  const slots = slotsOf(variables, rootRank, options, what);
  const lists = yield* exchange(variables.map(describeVariable), options);
  const difference = firstDifference(lists, (options.processSet ?? globalProcessSet).ranks);
  if (difference !== undefined) {
    throw new HorovodError(
      'ERR_HVD_MISMATCH',
      `${what}: the ranks' variables differ: ${difference.text}. Nothing was sent. ` +
        'Build the same model in the same way on every rank; shapes must not depend on a rank’s data.',
      { rank: difference.rank, tensor: difference.name },
    );
  }
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
): Slot[] {
  checkRoot(rootRank, options, what);
  return variables.map((variable) => ({
    shape: variable.shape,
    dtype: dtypeOf(variable, what) as SlotDtype,
    read: () => variable,
    receive: (value) => assignAndDispose(variable, value),
  }));
}

/** Checked before the first message, so that no rank waits for one that has thrown. */
export function checkRoot(rootRank: number, options: CollectiveOptions, what: string): void {
  const { ranks } = options.processSet ?? globalProcessSet;
  currentContext(); // throws before init()
  if (ranks.includes(rootRank)) return;
  throw invalid(
    what,
    `root rank ${describe(rootRank)} is not one of the ranks of the process set, ${ranks.join(', ')}`,
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
    throw invalid(
      what,
      `${variables.name} has no weights yet; a layer gets them when it is built or first applied`,
    );
  }
  throw invalid(
    what,
    `expected a model, or a list of tf.Variable or LayerVariable, not ${describe(variables)}`,
  );
}

function checkedVariable(variable: tf.Variable | tf.LayerVariable, what: string): tf.Variable {
  const isVariable = variable instanceof tf.Variable || variable instanceof tf.LayerVariable;
  const found = isVariable ? variableOf(variable, what) : undefined;
  if (found !== undefined && !found.isDisposed) return found;
  const text = found === undefined ? describe(variable) : 'one that has been disposed';
  throw invalid(what, `expected a tf.Variable or LayerVariable, not ${text}`);
}
