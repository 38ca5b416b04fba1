// A training step with sharded optimizer state (ZeRO-1): reducescatter of all gradients, the optimizer's own update of this
// rank's pieces, allgather of the new values. The optimizer sees the pieces as variables: a whole variable is itself, a part
// of one is a variable of that length, made for the step and named after it. So its accumulators are those of the pieces
// (state.ts).

import * as tf from '@tensorflow/tfjs';
import { HorovodError } from '../../../../errors.ts';
import { alloc } from '../../../../operations/alloc.ts';
import {
  allgatherObjectSync,
  allgatherSync,
  allreduceSync,
  broadcastSync,
  reducescatterSync,
} from '../../../../operations/collectives.ts';
import { Max } from '../../../../tensor/reduce-op.ts';
import { type AdapterContext, currentContext } from '../../../context.ts';
import { ReducerName } from '../../../reducer-name.ts';
import { broadcastOptimizerStateSync } from '../../optimizer-state.ts';
import { makeTensor, readTensor } from '../../tensor-access.ts';
import { describeVariable } from '../../variable-lists.ts';
import { agreeOnGradients, anyRank } from '../gradient-agreement.ts';
import { type Gradients, type NamedGradient, readInto } from '../gradients.ts';
import type { OptimizerRules } from '../options.ts';
import type { StepTimer } from '../step-times.ts';
import { layOut, type Piece } from './layout.ts';
import {
  cutState,
  hasState,
  nameAfterVariables,
  type Sharding,
  setSharding,
  shapeOfPiece,
  shardingOf,
  variableOfPiece,
} from './state.ts';

/** What a step is given. */
export interface GivenGradients {
  readonly variables: readonly tf.Variable[];
  /** One for each variable; undefined where this rank has none. They stay the caller's. */
  readonly gradients: Gradients;
  /** Whether the user has said which variables; otherwise only those with gradients count. */
  readonly isListed: boolean;
}

interface Input extends GivenGradients {
  readonly gradientOf: ReadonlyMap<tf.Variable, tf.Tensor | undefined>;
  readonly locals: ReadonlySet<tf.Variable>;
}

interface Route extends Sharding {
  /** Identifies the variables. */
  readonly signature: string;
  /** All gradients of the sharded variables, one after the other. */
  readonly flat: Float32Array;
  /** Which of the sharded variables have had a gradient on some rank. The others are left alone. */
  readonly isActive: boolean[];
  /** Some may get their first gradient later: the ranks ask each other before each step. */
  mayGrow: boolean;
  /** Whether there is a place for variables that have no gradient yet. */
  readonly isListed: boolean;
}

export class ShardedStep {
  readonly #optimizer: tf.Optimizer;
  readonly #base: tf.Optimizer;
  readonly #rules: OptimizerRules;
  readonly #name: ReducerName;
  #route: Route | undefined;

  constructor(optimizer: tf.Optimizer, base: tf.Optimizer, rules: OptimizerRules) {
    this.#optimizer = optimizer;
    this.#base = base;
    this.#rules = rules;
    this.#name = new ReducerName('DistributedOptimizer', rules);
  }

  /** Reduces, updates and gathers. Collective, blocking. False if the step was left out (skipNonFinite). */
  run(given: GivenGradients, locals: ReadonlySet<tf.Variable>, timer: StepTimer | undefined): boolean {
    const gradientOf = new Map(given.variables.map((variable, i) => [variable, given.gradients[i]]));
    const input = { ...given, gradientOf, locals };
    const route = this.#routeFor(input);
    const { context, flat } = route;
    const { op, compression, prescaleFactor, postscaleFactor, processSet, skipNonFinite } = this.#rules;
    eachSharded(route, (variable, start) => {
      const part = flat.subarray(start, start + variable.size);
      const gradient = gradientOf.get(variable);
      if (gradient === undefined) part.fill(0);
      else readInto(gradient, part);
    });
    const shard = reducescatterSync(context, flat, {
      op,
      compression,
      prescaleFactor,
      postscaleFactor,
      processSet,
      name: `${route.name}.gradients`,
    });
    if (skipNonFinite && this.#anyRank(route, 'finite', !shard.every(Number.isFinite))) return false;
    timer?.end('exposedCommunicationMs');
    const values = this.#update(route, shard, input);
    timer?.end('updateMs');
    assignAll(route, allgatherSync(context, values, { processSet, name: `${route.name}.weights` }));
    timer?.end('exposedCommunicationMs');
    return true;
  }

  /** The optimizer's own step over this rank's pieces and its local variables. Returns the new values of the shard. */
  #update(route: Route, shard: Float32Array, { gradientOf }: Input): Float32Array {
    const made: tf.Tensor[] = [];
    const { pieces, length } = route.layout;
    const targets = pieces.map((piece) => {
      const variable = variableOfPiece(route, piece);
      if (isWhole(variable, piece)) return variable;
      const values = readTensor(variable).slice(piece.from, piece.to);
      const tensor = makeTensor(values, [values.length], 'float32');
      const part = tf.variable(tensor, false, `${variable.name}/shard`);
      made.push(tensor, part);
      return part;
    });
    try {
      const entries = pieces.map((piece, i): NamedGradient => {
        const { name } = targets[i] as tf.Variable;
        if (route.isActive[piece.place] !== true) return { name, tensor: null as unknown as tf.Tensor };
        const values = shard.slice(piece.at, piece.at + piece.to - piece.from);
        const tensor = makeTensor(values, shapeOfPiece(variableOfPiece(route, piece), piece), 'float32');
        made.push(tensor);
        return { name, tensor };
      });
      const size = route.context.membersOf(route.processSet, this.#rules.what).ranks.length;
      for (const place of route.local) {
        const variable = route.variables[place] as tf.Variable;
        const gradient = gradientOf.get(variable);
        const isScaled = gradient !== undefined && this.#rules.scaleLocalGradients;
        const tensor = isScaled ? tf.div(gradient, size) : gradient;
        if (isScaled) made.push(tensor as tf.Tensor);
        entries.push({ name: variable.name, tensor: (tensor ?? null) as tf.Tensor });
      }
      this.#base.applyGradients.call(this.#optimizer, entries);
      nameAfterVariables(this.#optimizer, route);
      const values = new Float32Array(length);
      pieces.forEach(({ at }, i) => {
        values.set(readTensor(targets[i] as tf.Variable) as Float32Array, at);
      });
      return values;
    } finally {
      tf.dispose(made);
    }
  }

  /** The route of these variables; collective if there is none yet, or a gradient may be new. */
  #routeFor(input: Input): Route {
    const context = currentContext();
    const known = this.#route;
    if (known === undefined || known.context !== context) {
      const cut = shardingOf(this.#optimizer);
      if (cut !== undefined && cut.context !== context) throw this.#lost();
      this.#route = this.#makeRoute(context, input, cut);
      return this.#route;
    }
    this.#checkSame(known, input);
    this.#grow(known, input);
    // setWeights() has replaced the state with a full one.
    if (shardingOf(this.#optimizer) === undefined) cutState(this.#optimizer, known);
    return known;
  }

  /** `cut`: how the state is cut already, by the synchronization of an elastic job. */
  #makeRoute(context: AdapterContext, input: Input, cut: Sharding | undefined): Route {
    const { variables, gradientOf, locals, isListed } = input;
    const { what, processSet } = this.#rules;
    const name = `${this.#name.next(context)}.sharded`;
    const global = variables.filter((variable) => !locals.has(variable));
    for (const { name: variableName, dtype } of global) {
      if (dtype === 'float32') continue;
      throw new HorovodError(
        'ERR_HVD_UNSUPPORTED',
        `${what}: shardOptimizerState takes variables of float32, and "${variableName}" is ${dtype}.`,
      );
    }
    const has = (variable: tf.Variable) => gradientOf.get(variable) !== undefined;
    const present = global.flatMap((variable, place) => (has(variable) ? [place] : []));
    const proposal = { variables: global.map(describeVariable), present, finished: [], modes: [] };
    const agreement = agreeOnGradients(context, proposal, { what, name: `${name}.plan`, processSet });
    const used = new Set(agreement.order);
    const takesAll = isListed && agreement.areAlike;
    const before = new Set(cut?.variables);
    const chosen = global.filter((variable, place) => takesAll || used.has(place) || before.has(variable));
    const active = new Set(cut?.sharded.filter((_, k) => cut.hasAccumulators?.[k]));
    const isActive = chosen.map(
      (variable) =>
        used.has(global.indexOf(variable)) || active.has(cut?.variables.indexOf(variable) as number),
    );
    const own = variables.filter(
      (variable) => locals.has(variable) && (takesAll || has(variable) || before.has(variable)),
    );
    const inOrder = variables.filter((variable) => chosen.includes(variable) || own.includes(variable));
    const { ranks, index } = context.membersOf(processSet, what);
    const sizes = chosen.map(({ size }) => size);
    const layout = layOut(sizes, index, ranks.length);
    const route: Route = {
      what,
      name,
      context,
      processSet,
      variables: inOrder,
      sharded: chosen.map((variable) => inOrder.indexOf(variable)),
      local: own.map((variable) => inOrder.indexOf(variable)),
      layout,
      signature: signatureOf(takesAll ? variables : inOrder, locals),
      flat: alloc(context, layout.total).data as Float32Array,
      isActive,
      mayGrow: agreement.mayGrow,
      isListed: takesAll,
    };
    if (cut === undefined) {
      this.#unite(route);
      cutState(this.#optimizer, route);
    } else if (areSame(cut, route)) setSharding(this.#optimizer, route);
    else throw this.#others(variables.length, locals.size, cut.variables.length);
    return route;
  }

  /**
   * Each weight is updated by one rank, so weights must be the same before the first step; so must the state, which may have
   * been loaded on some ranks only. Those of the first rank of the set win, as in BroadcastGlobalVariablesCallback.
   */
  #unite(route: Route): void {
    const { context, processSet, layout, name, what } = route;
    const root = context.membersOf(processSet, what).ranks[0] as number;
    const weights = new Float32Array(layout.total);
    eachSharded(route, (variable, start) => weights.set(readTensor(variable) as Float32Array, start));
    broadcastSync(context, weights, root, { processSet, name: `${name}.weights.first`, inPlace: true });
    if (context.world.rank !== root) assignAll(route, weights);
    const having = allgatherObjectSync(context, hasState(this.#optimizer), {
      processSet,
      name: `${name}.state.first`,
    });
    if (having.every((each) => each === having[0])) return;
    broadcastOptimizerStateSync(this.#optimizer, root, { processSet, name: `${name}.state.root` });
  }

  #grow(route: Route, { variables, gradientOf, locals }: Input): void {
    if (!route.mayGrow) return;
    if (!route.isListed) {
      const isIn = new Set(route.variables);
      const isNew = variables.some(
        (variable) => gradientOf.get(variable) !== undefined && !isIn.has(variable) && !locals.has(variable),
      );
      if (!this.#anyRank(route, 'more', isNew)) return;
      throw new HorovodError(
        'ERR_HVD_UNSUPPORTED',
        `${this.#rules.what}: a variable that had no gradient in the first step has one now, and there is no place for its ` +
          'state. With shardOptimizerState, give minimize() the list of variables: minimize(loss, false, variables).',
      );
    }
    const mask = route.sharded.map((place) =>
      gradientOf.get(route.variables[place] as tf.Variable) === undefined ? 0 : 1,
    );
    const { context, processSet, name } = route;
    const options = { op: Max, processSet, name: `${name}.more` };
    allreduceSync(context, Int32Array.from(mask), options).forEach((has, k) => {
      if (has === 1) route.isActive[k] = true;
    });
    route.mayGrow = route.isActive.includes(false);
  }

  #anyRank({ context, processSet, name }: Route, question: string, isSo: boolean): boolean {
    return anyRank(context, isSo, { processSet, name: `${name}.${question}` });
  }

  #checkSame(route: Route, { variables, locals }: Input): void {
    // Without a list from the user, more variables may appear, for other purposes.
    const given = route.isListed
      ? variables
      : variables.filter((variable) => route.variables.includes(variable));
    if (signatureOf(given, locals) === route.signature) return;
    throw this.#others(variables.length, locals.size, route.variables.length);
  }

  #others(given: number, local: number, first: number): HorovodError {
    return new HorovodError(
      'ERR_HVD_UNSUPPORTED',
      `${this.#rules.what}: with shardOptimizerState an optimizer is for one list of variables, in one order. It was first used ` +
        `with ${first}, and is now given others (${given}, ${local} of them local). Register local ` +
        'variables before the first step, and make an optimizer for each list.',
    );
  }

  #lost(): HorovodError {
    return new HorovodError(
      'ERR_HVD_UNSUPPORTED',
      `${this.#rules.what}: its state is spread over the ranks of an init() that has ended. Call getWeights() on all ranks before ` +
        'shutdown() and setWeights() with the result after init(), or use a new optimizer.',
    );
  }
}

/** Calls `visit` for each sharded variable, with its place in the vector of all. */
function eachSharded(route: Route, visit: (variable: tf.Variable, start: number) => void): void {
  route.sharded.forEach((place, k) => {
    visit(route.variables[place] as tf.Variable, route.layout.starts[k] as number);
  });
}

function assignAll(route: Route, values: Float32Array): void {
  eachSharded(route, (variable, start) => {
    const tensor = makeTensor(values.slice(start, start + variable.size), variable.shape, 'float32');
    variable.assign(tensor);
    tensor.dispose();
  });
}

function areSame(a: Sharding, b: Sharding): boolean {
  const isAlike = (as: readonly unknown[], bs: readonly unknown[]) =>
    as.length === bs.length && as.every((each, i) => each === bs[i]);
  return (
    isAlike(a.variables, b.variables) && isAlike(a.sharded, b.sharded) && a.layout.length === b.layout.length
  );
}

function isWhole(variable: tf.Variable, { from, to }: Piece): boolean {
  return to - from === variable.size;
}

function signatureOf(variables: readonly tf.Variable[], locals: ReadonlySet<tf.Variable>): string {
  return variables.map((variable) => `${variable.id}${locals.has(variable) ? 'l' : ''}`).join();
}
