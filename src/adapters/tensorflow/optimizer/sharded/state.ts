// An optimizer's accumulators in two forms. *Full*: one for each variable, as TensorFlow.js makes them, saves them and loads
// them. *Cut*: one for each piece of this rank's shard (layout.ts), then one for each local variable. cutState() cuts a full
// state, on one rank; gatherState() makes a full copy of the cut states of all ranks, and is collective.

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../../../errors.ts';
import { allgatherObjectSync, groupedAllgatherSync } from '../../../../operations/collectives.ts';
import type { ProcessSet } from '../../../../operations/process-set.ts';
import type { AdapterContext } from '../../../context.ts';
import {
  type Accumulators,
  accumulatorsOf,
  type Fields,
  type OptimizerVariable,
} from '../../accumulators.ts';
import { makeTensor, readTensor } from '../../tensor-access.ts';
import type { Piece, ShardLayout } from './layout.ts';

/** Which variables an optimizer's state belongs to, and which rank has what. */
export interface Sharding {
  readonly what: string;
  readonly name: string;
  readonly context: AdapterContext;
  readonly processSet: ProcessSet | undefined;
  /** All, in the order of the full state. */
  readonly variables: readonly tf.Variable[];
  /** Places in `variables` of those that are sharded; pieces count among these. */
  readonly sharded: readonly number[];
  /** Places in `variables` of the local ones. */
  readonly local: readonly number[];
  readonly layout: ShardLayout;
  /** Of a state that another generation has cut: which of the sharded variables have accumulators, on whatever rank. */
  readonly hasAccumulators?: readonly boolean[] | undefined;
}

/** The variable that a piece belongs to. */
export function variableOfPiece({ variables, sharded }: Sharding, { place }: Piece): tf.Variable {
  return variables[sharded[place] as number] as tf.Variable;
}

/** A whole variable keeps its shape; a part is flat. */
export function shapeOfPiece(variable: tf.Variable, { from, to }: Piece): readonly number[] {
  return to - from === variable.size ? variable.shape : [to - from];
}

/** Optimizers whose state is cut now, and how. */
const cut = new WeakMap<tf.Optimizer, Sharding>();

export function shardingOf(optimizer: tf.Optimizer): Sharding | undefined {
  return cut.get(optimizer);
}

/** The state is cut like this. */
export function setSharding(optimizer: tf.Optimizer, sharding: Sharding): void {
  cut.set(optimizer, sharding);
}

/** The state was replaced with a full one. */
export function forgetSharding(optimizer: tf.Optimizer): void {
  cut.delete(optimizer);
}

export function hasState(optimizer: tf.Optimizer): boolean {
  return accumulatorsOf(optimizer).some(([, list]) => list.some((entry) => entry != null));
}

/** Cuts the full state, if there is any, to this rank's shard, and disposes of the rest. */
export function cutState(optimizer: tf.Optimizer, sharding: Sharding): void {
  const { sharded, local, layout } = sharding;
  for (const [field, full] of accumulatorsOf(optimizer)) {
    checkFull(optimizer, field, full, sharding);
    const pieces = layout.pieces.map((piece): OptimizerVariable | undefined => {
      const variable = variableOfPiece(sharding, piece);
      const entry = full[sharded[piece.place] as number];
      if (entry == null) return undefined; // made by the optimizer when it is needed
      const values = readTensor(entry.variable).slice(piece.from, piece.to);
      const tensor = makeTensor(values, shapeOfPiece(variable, piece), 'float32');
      const made = { originalName: entry.originalName, variable: tf.variable(tensor, false) };
      tensor.dispose();
      return made;
    });
    const kept = local.map((place) => full[place] ?? undefined);
    for (const entry of full) if (entry != null && !kept.includes(entry)) entry.variable.dispose();
    // An empty list rather than gaps: disposing and saving in TensorFlow.js fail on gaps.
    const list = [...pieces, ...kept];
    (optimizer as unknown as Fields)[field] = list.every((entry) => entry === undefined) ? [] : list;
  }
  cut.set(optimizer, sharding);
}

/** New accumulators are named after the piece; named after the variable, they are the same on all ranks. */
export function nameAfterVariables(optimizer: tf.Optimizer, sharding: Sharding): void {
  for (const [, list] of accumulatorsOf(optimizer)) {
    sharding.layout.pieces.forEach((piece, i) => {
      const entry = list[i];
      if (entry == null) return;
      entry.originalName = `${variableOfPiece(sharding, piece).name}${suffixOf(entry)}`;
    });
  }
}

/**
 * The full state of a cut one, as fields that can replace the optimizer's. Collective, blocking: all ranks that share the
 * state call it. Tensors of sharded variables are new and belong to the caller; those of local ones to the optimizer.
 */
export function gatherState(
  optimizer: tf.Optimizer,
  sharding: Sharding,
): Record<string, OptimizerVariable[]> {
  const { context, processSet, name, layout, variables, sharded, local } = sharding;
  const lists = accumulatorsOf(optimizer);
  if (lists.length === 0) return {};
  const options = { processSet, name: `${name}.state` };
  // A rank without elements has no accumulators to read the names from.
  const suffixes = allgatherObjectSync(
    context,
    lists.map(([, list]) =>
      list.map((entry) => (entry == null ? '' : suffixOf(entry))).find((suffix) => suffix),
    ),
    { ...options, name: `${name}.state.names` },
  );
  const parts = lists.map(([, list]) => shardValues(list, layout));
  const gathered = groupedAllgatherSync(context, parts, options);
  return Object.fromEntries(
    lists.map(([field, list], i) => {
      const flat = gathered[i] as Float32Array;
      const suffix = suffixes.map((ofRank) => ofRank[i]).find((each) => each) ?? '';
      if (flat.length === 0 && layout.total > 0) return [field, []];
      const full: OptimizerVariable[] = variables.map((variable) => ({
        originalName: `${variable.name}${suffix}`,
        variable,
      }));
      sharded.forEach((place, k) => {
        const { shape, size } = variables[place] as tf.Variable;
        const start = layout.starts[k] as number;
        const tensor = makeTensor(flat.slice(start, start + size), shape, 'float32');
        (full[place] as OptimizerVariable).variable = tensor as tf.Variable; // as good as one, for getWeights()
      });
      local.forEach((place, k) => {
        const entry = list[layout.pieces.length + k];
        if (entry != null) full[place] = entry;
      });
      return [field, full];
    }),
  );
}

/** One list's values of this rank's shard; none if there are none yet. */
function shardValues(list: Accumulators, { pieces, length }: ShardLayout): Float32Array {
  if (pieces.every((_, i) => list[i] == null)) return new Float32Array(0);
  const values = new Float32Array(length);
  pieces.forEach(({ at }, i) => {
    const entry = list[i];
    if (entry != null) values.set(readTensor(entry.variable) as Float32Array, at);
  });
  return values;
}

/** '/m' of 'dense/kernel/m'. */
export function suffixOf({ originalName }: OptimizerVariable): string {
  return originalName.slice(Math.max(originalName.lastIndexOf('/'), 0));
}

function checkFull(
  optimizer: tf.Optimizer,
  field: string,
  full: Accumulators,
  { what, variables }: Sharding,
): void {
  const fail = (reason: string): never => {
    throw new HorovodError(
      'ERR_HVD_MISMATCH',
      `${what}: the state of this ${optimizer.getClassName()} optimizer does not fit the variables (${field}: ${reason}). ` +
        'Load the state that was saved with this model, or make a new optimizer.',
    );
  };
  if (full.length > variables.length) fail(`${full.length} entries for ${variables.length} variables`);
  full.forEach((entry, place) => {
    const { name, shape } = variables[place] as tf.Variable;
    if (entry == null || entry.variable.shape.join() === shape.join()) return;
    fail(`shape [${entry.variable.shape.join(', ')}] for "${name}" of shape [${shape.join(', ')}]`);
  });
}
