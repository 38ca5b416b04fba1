// The shards of an optimizer's state in an elastic job. Each rank has its own, and copies of those of other ranks (*mirrors*), by
// commit: a lost rank leaves its shard in a mirror. In the next generation the shards are cut anew for its ranks (adapters/sharding/reshard.ts).

import { createHash } from 'node:crypto';
import * as tf from '@tensorflow/tfjs';
import type { ShardPlan } from '../../../../elastic/runner.ts';
import { invalid } from '../../../../operations/check-options.ts';
import { allgatherObject, broadcastObject } from '../../../../operations/collectives.ts';
import { bytesOf } from '../../../../tensor/tensor.ts';
import type { BothForms } from '../../../both-forms.ts';
import { currentContext } from '../../../context.ts';
import { reshardTogether, sendShards } from '../../../sharding/travel.ts';
import {
  type Accumulators,
  accumulatorsOf,
  type Fields,
  type OptimizerVariable,
} from '../../accumulators.ts';
import { makeTensor, readTensor } from '../../tensor-access.ts';
import type { OptimizerRules } from '../options.ts';
import { layOut, type ShardLayout } from './layout.ts';
import {
  forgetSharding,
  type Sharding,
  setSharding,
  shapeOfPiece,
  shardingOf,
  suffixOf,
  variableOfPiece,
} from './state.ts';

/** Which variables the state is of. */
type Structure = Pick<Sharding, 'variables' | 'sharded' | 'local'>;

/** The same with places in the list of all variables that the ranks have in common. */
interface DescribedStructure {
  readonly variables: readonly number[];
  readonly sharded: readonly number[];
  readonly local: readonly number[];
}

/** One rank's values. */
interface Shard {
  /** By field. */
  readonly values: readonly Float32Array[];
  /** By field, then by sharded variable: whether it has accumulators here. */
  readonly present: readonly (readonly boolean[])[];
}

/** What a rank tells the others before shards travel. */
interface Description {
  readonly structure: DescribedStructure | undefined;
  readonly suffixes: readonly (string | undefined)[];
  /** Of the shards that it has. */
  readonly present: readonly Shard['present'][];
}

/** What is kept with a commit. */
interface Kept {
  readonly sharding: Sharding | undefined;
  readonly alone: Structure | undefined;
  readonly mirrors: ReadonlyMap<number, Shard>;
}

export class Shards {
  /** Steps of all ranks together. */
  reductions = 0;
  readonly #optimizer: tf.Optimizer;
  readonly #rules: OptimizerRules;
  /** Of a state that is not cut, because this rank was alone. */
  #alone: Structure | undefined;
  readonly #kept: (Kept | undefined)[] = [];

  constructor(optimizer: tf.Optimizer, rules: OptimizerRules) {
    this.#optimizer = optimizer;
    this.#rules = rules;
  }

  /** Rejects what cannot be part of an elastic state. */
  checkElastic(what: string): void {
    const { processSet } = this.#rules;
    if (processSet === undefined || processSet.id === 0) return;
    throw invalid(
      what,
      `the state of an optimizer is sharded over some ranks only (${processSet}); in an elastic state, leave out processSet or shardOptimizerState`,
    );
  }

  /** A step without other ranks: the state is whole. */
  trainedAlone(variables: readonly tf.Variable[], locals: ReadonlySet<tf.Variable>): void {
    const places = variables.map((_, place) => place);
    this.#alone = {
      variables,
      sharded: places.filter((place) => !locals.has(variables[place] as tf.Variable)),
      local: places.filter((place) => locals.has(variables[place] as tf.Variable)),
    };
  }

  save(slot: number): void {
    const sharding = shardingOf(this.#optimizer);
    this.#kept[slot] = { sharding, alone: this.#alone, mirrors: new Map() };
  }

  restore(slot: number): void {
    const kept = this.#kept[slot];
    if (kept === undefined) return;
    this.#alone = kept.alone;
    if (kept.sharding === undefined) forgetSharding(this.#optimizer);
    else setSharding(this.#optimizer, kept.sharding);
  }

  forget(slot: number): void {
    this.#kept[slot] = undefined;
  }

  /** Collective: sends the shard that was just saved to those who are to have a copy, and keeps what comes. */
  *mirror(slot: number, holders: readonly (readonly number[])[]): BothForms<void> {
    const context = currentContext();
    const { rank } = context.world;
    const own = (holders[rank] ?? []).length === 0 ? new Float32Array(0) : encode(this.#ownShard());
    const received = yield* sendShards(context, own, holders);
    const mirrors = new Map([...received].map(([shard, values]) => [shard, decode(values)] as const));
    const kept = this.#kept[slot] as Kept;
    this.#kept[slot] = { ...kept, mirrors };
  }

  /** By shard: of this rank's own, as it is now, and of the mirrors in the slot. */
  digests(slot: number): Record<string, string> {
    const { rank, size } = currentContext().world;
    const shards = new Map([[rank, this.#ownShard()], ...(this.#kept[slot]?.mirrors ?? [])]);
    return Object.fromEntries(
      [...shards].map(([shard, values]) => [
        `shard ${shard} of ${size}`,
        createHash('sha256')
          .update(bytesOf(encode(values)))
          .digest('hex'),
      ]),
    );
  }

  /**
   * Collective, in a new generation: cuts the state anew. `variables`: all of the job's state, in the same order on all ranks.
   * Every rank that was there before has gone back to the commit in the slot.
   */
  async reshard(root: number, plan: ShardPlan, variables: readonly tf.Variable[]): Promise<void> {
    const context = currentContext();
    const { rank, size } = context.world;
    const held = this.#held(plan);
    const own: Description = {
      structure: plan.own === undefined ? undefined : this.#describe(variables),
      suffixes: accumulatorsOf(this.#optimizer).map(([, list]) => suffixIn(list)),
      present: [...held.values()].map(({ present }) => present),
    };
    const all = await allgatherObject(context, own, { name: 'horovod.elastic.reshard' });
    const described = all[root]?.structure;
    if (described === undefined) return; // no step has been done
    const structure: Structure = {
      ...described,
      variables: described.variables.map((place) => variables[place] as tf.Variable),
    };
    const sizes = structure.sharded.map((place) => (structure.variables[place] as tf.Variable).size);
    const layout = layOut(sizes, rank, size);
    const present = union(all.flatMap((each) => each.present));
    const values = await reshardTogether(context, held, {
      total: layout.total,
      fields: present.length,
      holders: plan.holders,
    });
    const locals = await this.#localEntries(structure, root, plan);
    const suffixes = present.map((_, i) => all.map((each) => each.suffixes[i]).find((each) => each) ?? '');
    this.#install(structure, layout, { values, present, suffixes, locals });
  }

  get #structure(): Structure | undefined {
    return shardingOf(this.#optimizer) ?? this.#alone;
  }

  /** This rank's values, as they are now. */
  #ownShard(): Shard {
    const structure = this.#structure;
    if (structure === undefined) return { values: [], present: [] };
    const cut = shardingOf(this.#optimizer);
    const layout = cut?.layout ?? wholeLayout(structure);
    const lists = accumulatorsOf(this.#optimizer).map(([, list]) => list);
    const entriesOf = (list: Accumulators) =>
      layout.pieces.map(({ place }, i) => (cut ? list[i] : list[structure.sharded[place] as number]));
    return {
      values: lists.map((list) => {
        const values = new Float32Array(layout.length);
        const entries = entriesOf(list);
        layout.pieces.forEach(({ at }, i) => {
          const entry = entries[i];
          if (entry != null) values.set(readTensor(entry.variable) as Float32Array, at);
        });
        return values;
      }),
      present: lists.map((list) => {
        const has = structure.sharded.map(() => false);
        const entries = entriesOf(list);
        layout.pieces.forEach(({ place }, i) => {
          if (entries[i] != null) has[place] = true;
        });
        return has;
      }),
    };
  }

  /** What this rank has of the commit in the slot, by shard. */
  #held({ slot, own }: ShardPlan): Map<number, Shard> {
    if (own === undefined) return new Map();
    return new Map([[own, this.#ownShard()], ...(this.#kept[slot]?.mirrors ?? [])]);
  }

  #describe(all: readonly tf.Variable[]): DescribedStructure | undefined {
    const structure = this.#structure;
    if (structure === undefined) return undefined;
    const { variables, sharded, local } = structure;
    return {
      variables: variables.map((variable) => {
        const place = all.indexOf(variable);
        if (place >= 0) return place;
        throw invalid(
          this.#rules.what,
          `the state of an elastic job needs every variable that an optimizer with shardOptimizerState trains, and "${variable.name}" is not in it`,
        );
      }),
      sharded,
      local,
    };
  }

  /** Accumulators of local variables, by field: this rank's own, or the root's on a rank that has just joined. */
  async #localEntries(
    { variables, local }: Structure,
    root: number,
    { own }: ShardPlan,
  ): Promise<(OptimizerVariable | undefined)[][]> {
    if (local.length === 0) return [];
    const context = currentContext();
    const cut = shardingOf(this.#optimizer);
    const lists = own === undefined ? [] : accumulatorsOf(this.#optimizer).map(([, list]) => list);
    const entries = lists.map((list) =>
      local.map((place, k) => list[cut ? cut.layout.pieces.length + k : place] ?? undefined),
    );
    const offered = entries.map((list) =>
      list.map(
        (entry) => entry && { name: entry.originalName, data: readTensor(entry.variable) as Float32Array },
      ),
    );
    const received = await broadcastObject(context, offered, root, { name: 'horovod.elastic.local' });
    if (own !== undefined) return entries;
    return received.map((list) =>
      list.map((entry, k) => {
        if (entry === undefined) return undefined;
        const { shape } = variables[local[k] as number] as tf.Variable;
        return { originalName: entry.name, variable: variableOf(entry.data, shape) };
      }),
    );
  }

  #install(
    structure: Structure,
    layout: ShardLayout,
    state: {
      readonly values: readonly Float32Array[];
      readonly present: Shard['present'];
      readonly suffixes: readonly string[];
      readonly locals: readonly (readonly (OptimizerVariable | undefined)[])[];
    },
  ): void {
    const { what } = this.#rules;
    const context = currentContext();
    const hasAccumulators = structure.sharded.map((_, k) => state.present.some((has) => has[k]));
    const name = 'DistributedOptimizer.elastic';
    const sharding: Sharding = {
      ...structure,
      what,
      name,
      context,
      processSet: undefined,
      layout,
      hasAccumulators,
    };
    accumulatorsOf(this.#optimizer).forEach(([field, before], i) => {
      const pieces = layout.pieces.map((piece): OptimizerVariable | undefined => {
        if (state.present[i]?.[piece.place] !== true) return undefined;
        const variable = variableOfPiece(sharding, piece);
        const data = (state.values[i] as Float32Array).slice(piece.at, piece.at + piece.to - piece.from);
        return {
          originalName: `${variable.name}${state.suffixes[i]}`,
          variable: variableOf(data, shapeOfPiece(variable, piece)),
        };
      });
      const locals = state.locals[i] ?? [];
      for (const entry of before) if (entry != null && !locals.includes(entry)) entry.variable.dispose();
      const list =
        context.world.size === 1 ? whole(structure, layout, pieces, locals) : [...pieces, ...locals];
      const isEmpty = list.every((entry) => entry === undefined);
      (this.#optimizer as unknown as Fields)[field] = isEmpty ? [] : list;
    });
    if (context.world.size > 1) setSharding(this.#optimizer, sharding);
    else forgetSharding(this.#optimizer);
    this.#alone = context.world.size > 1 ? undefined : structure;
  }
}

/** A list as TensorFlow.js has it: one entry for each variable. */
function whole(
  { variables, sharded, local }: Structure,
  { pieces }: ShardLayout,
  ofPieces: readonly (OptimizerVariable | undefined)[],
  locals: readonly (OptimizerVariable | undefined)[],
): (OptimizerVariable | undefined)[] {
  const list: (OptimizerVariable | undefined)[] = variables.map(() => undefined);
  pieces.forEach(({ place }, i) => {
    list[sharded[place] as number] = ofPieces[i];
  });
  local.forEach((place, k) => {
    list[place] = locals[k];
  });
  return list;
}

function wholeLayout({ variables, sharded }: Structure): ShardLayout {
  const sizes = sharded.map((place) => (variables[place] as tf.Variable).size);
  return layOut(sizes, 0, 1);
}

/** Numbers of fields and variables, which variables have accumulators, then the values. */
function encode({ values, present }: Shard): Float32Array {
  const flags = present.flat();
  const header = [values.length, present[0]?.length ?? 0];
  const length = values.reduce((sum, each) => sum + each.length, 0);
  const encoded = new Float32Array(header.length + flags.length + length);
  encoded.set([...header, ...flags.map(Number)]);
  let at = header.length + flags.length;
  for (const each of values) {
    encoded.set(each, at);
    at += each.length;
  }
  return encoded;
}

function decode(encoded: Float32Array): Shard {
  const [fields = 0, variables = 0] = encoded;
  const start = 2 + fields * variables;
  const length = fields === 0 ? 0 : (encoded.length - start) / fields;
  return {
    present: Array.from({ length: fields }, (_, i) =>
      Array.from(encoded.subarray(2 + i * variables, 2 + (i + 1) * variables), (flag) => flag === 1),
    ),
    values: Array.from({ length: fields }, (_, i) =>
      encoded.subarray(start + i * length, start + (i + 1) * length),
    ),
  };
}

function union(all: readonly Shard['present'][]): boolean[][] {
  const fields = Math.max(0, ...all.map((each) => each.length));
  return Array.from({ length: fields }, (_, i) => {
    const flags = all.map((each) => each[i] ?? []);
    const variables = Math.max(0, ...flags.map((each) => each.length));
    return Array.from({ length: variables }, (_, k) => flags.some((each) => each[k]));
  });
}

function suffixIn(list: Accumulators): string | undefined {
  const entry = list.find((each) => each != null);
  return entry == null ? undefined : suffixOf(entry);
}

function variableOf(data: Float32Array, shape: readonly number[]): tf.Variable {
  const tensor = makeTensor(data, shape, 'float32');
  const variable = tf.variable(tensor, false);
  tensor.dispose();
  return variable;
}
