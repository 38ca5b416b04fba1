// A training step with sharded optimizer state (ZeRO-1): reducescatter of all gradients, the optimizer's own update of this
// rank's pieces, allgather of the new values. The optimizer sees the pieces as variables: a whole variable is itself, a part
// of one is a variable of that length, made for the step and called after it. Its accumulators are therefore those of the
// pieces (state.ts).

import * as tf from '@tensorflow/tfjs';
import type { HorovodContext } from '../../../../context/context.ts';
import { defaultContext } from '../../../../context/default/default-context.ts';
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
import { broadcastOptimizerStateSync } from '../../optimizer-state.ts';
import { makeTensor, readTensor } from '../../tensor-access.ts';
import { agreeOnGradients, describeVariables } from '../gradient-agreement.ts';
import { type Gradients, readInto } from '../gradient-reducer.ts';
import type { OptimizerRules } from '../options.ts';
import { numberOfReducer } from '../reducer-numbers.ts';
import type { StepTimer } from '../step-times.ts';
import { layOut, type Piece } from './layout.ts';
import {
  cutState,
  forgetSharding,
  hasState,
  nameAfterVariables,
  type Sharding,
  shapeOfPiece,
  shardingOf,
  variableOfPiece,
} from './state.ts';

/** What one step is given. */
export interface ShardedStepInput {
  readonly variables: readonly tf.Variable[];
  /** One for each variable; undefined where this rank has none. They stay the caller's. */
  readonly gradients: Gradients;
  readonly locals: ReadonlySet<tf.Variable>;
  /** Whether the user has said which variables; otherwise only those with gradients count. */
  readonly isListed: boolean;
  readonly timer: StepTimer | undefined;
}

interface Route extends Sharding {
  /** What the variables are told apart by. */
  readonly signature: string;
  /** All gradients of the sharded variables, one after the other. */
  readonly flat: Float32Array;
  /** Which of the sharded variables have had a gradient on some rank. The others are left alone. */
  readonly isActive: boolean[];
  /** Some may get their first gradient later: the ranks ask each other before each step. */
  mayGrow: boolean;
  /** Gradients of variables outside of `variables` cannot be taken in. */
  readonly isListed: boolean;
}

export class ShardedStep {
  readonly #optimizer: tf.Optimizer;
  readonly #base: tf.Optimizer;
  readonly #rules: OptimizerRules;
  #name: string | undefined;
  #routesMade = 0;
  #route: Route | undefined;

  constructor(optimizer: tf.Optimizer, base: tf.Optimizer, rules: OptimizerRules) {
    this.#optimizer = optimizer;
    this.#base = base;
    this.#rules = rules;
  }

  /** Reduces, updates and gathers. Collective, blocking. False if the step was left out (skipNonFinite). */
  run(input: ShardedStepInput): boolean {
    const route = this.#routeFor(input);
    const { context, layout } = route;
    const { op, compression, prescaleFactor, postscaleFactor, processSet } = this.#rules;
    this.#pack(route, input);
    const shard = reducescatterSync(context, route.flat, {
      op,
      compression,
      prescaleFactor,
      postscaleFactor,
      processSet,
      name: `${route.name}.gradients`,
    });
    if (this.#rules.skipNonFinite && this.#anyRank(route, 'finite', !shard.every(Number.isFinite))) {
      return false;
    }
    input.timer?.end('exposedCommunicationMs');
    const values = this.#update(route, shard, input);
    input.timer?.end('updateMs');
    const all = allgatherSync(context, values, { processSet, name: `${route.name}.weights` });
    route.sharded.forEach((place, k) => {
      const start = layout.starts[k] as number;
      const variable = route.variables[place] as tf.Variable;
      assignValues(variable, all.slice(start, start + variable.size));
    });
    input.timer?.end('exposedCommunicationMs');
    return true;
  }

  /** The optimizer's own step over this rank's pieces and its local variables. Returns the new values of the shard. */
  #update(route: Route, shard: Float32Array, { variables, gradients }: ShardedStepInput): Float32Array {
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
      const entries = pieces.map((piece, i) => {
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
        const gradient = gradients[variables.indexOf(variable)];
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

  #pack(route: Route, { variables, gradients }: ShardedStepInput): void {
    const { layout, flat } = route;
    const placeOf = new Map(variables.map((variable, place) => [variable, place]));
    route.sharded.forEach((place, k) => {
      const variable = route.variables[place] as tf.Variable;
      const start = layout.starts[k] as number;
      const part = flat.subarray(start, start + variable.size);
      const gradient = gradients[placeOf.get(variable) ?? -1];
      if (gradient === undefined) part.fill(0);
      else readInto(gradient, part);
    });
  }

  /** The way for these variables; collective when there is none yet, or a gradient may be new. */
  #routeFor(input: ShardedStepInput): Route {
    const context = defaultContext();
    const known = this.#route;
    if (known === undefined || known.context !== context) {
      if (known !== undefined && shardingOf(this.#optimizer) !== undefined) throw this.#lost();
      this.#route = this.#makeRoute(context, input);
      return this.#route;
    }
    this.#checkSame(known, input);
    this.#grow(known, input);
    // setWeights() has put a full state there.
    if (shardingOf(this.#optimizer) === undefined) cutState(this.#optimizer, known);
    return known;
  }

  #makeRoute(context: HorovodContext, { variables, gradients, locals, isListed }: ShardedStepInput): Route {
    const { what, processSet } = this.#rules;
    this.#name ??= this.#rules.name ?? `DistributedOptimizer.${numberOfReducer(context, processSet)}`;
    const name = `${this.#name}.sharded.${this.#routesMade++}`;
    const global = variables.filter((variable) => !locals.has(variable));
    for (const { name: variableName, dtype } of global) {
      if (dtype === 'float32') continue;
      throw new HorovodError(
        'ERR_HVD_UNSUPPORTED',
        `${what}: shardOptimizerState takes variables of float32, and "${variableName}" is ${dtype}.`,
      );
    }
    const placeOf = new Map(variables.map((variable, place) => [variable, place]));
    const has = (variable: tf.Variable) => gradients[placeOf.get(variable) ?? -1] !== undefined;
    const present = global.flatMap((variable, place) => (has(variable) ? [place] : []));
    const proposal = { variables: describeVariables(global), present, finished: [], transports: [] };
    const agreement = agreeOnGradients(context, proposal, { what, name: `${name}.plan`, processSet });
    const used = new Set(agreement.order);
    const takesAll = isListed && agreement.areAlike;
    const chosen = global.filter((_, place) => takesAll || used.has(place));
    const isActive = chosen.map((variable) => used.has(global.indexOf(variable)));
    const own = variables.filter((variable) => locals.has(variable) && (takesAll || has(variable)));
    const inOrder = variables.filter((variable) => chosen.includes(variable) || own.includes(variable));
    const { ranks, index } = context.membersOf(processSet, what);
    const layout = layOut(
      chosen.map(({ size }) => size),
      index,
      ranks.length,
    );
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
    this.#unite(route);
    forgetSharding(this.#optimizer);
    cutState(this.#optimizer, route);
    return route;
  }

  /**
   * Weights are updated by one rank each, so they must be the same before the first step; so must the state, which may have been
   * loaded on some ranks only. Those of the first rank of the set win, as in BroadcastGlobalVariablesCallback.
   */
  #unite(route: Route): void {
    const { context, processSet, layout, name, what } = route;
    const { ranks } = context.membersOf(processSet, what);
    const root = ranks[0] as number;
    const weights = new Float32Array(layout.total);
    route.sharded.forEach((place, k) => {
      weights.set(
        readTensor(route.variables[place] as tf.Variable) as Float32Array,
        layout.starts[k] as number,
      );
    });
    broadcastSync(context, weights, root, { processSet, name: `${name}.weights.first`, inPlace: true });
    if (context.world.rank !== root) {
      route.sharded.forEach((place, k) => {
        const variable = route.variables[place] as tf.Variable;
        const start = layout.starts[k] as number;
        assignValues(variable, weights.slice(start, start + variable.size));
      });
    }
    const having = allgatherObjectSync(context, hasState(this.#optimizer), {
      processSet,
      name: `${name}.state.first`,
    });
    if (having.every((each) => each === having[0])) return;
    broadcastOptimizerStateSync(this.#optimizer, root, { processSet, name: `${name}.state.root` });
  }

  #grow(route: Route, { variables, gradients, locals }: ShardedStepInput): void {
    if (!route.mayGrow) return;
    const isIn = new Set(route.variables);
    const isNew = variables.some(
      (variable, place) => gradients[place] !== undefined && !isIn.has(variable) && !locals.has(variable),
    );
    if (!route.isListed) {
      if (!this.#anyRank(route, 'more', isNew)) return;
      throw new HorovodError(
        'ERR_HVD_UNSUPPORTED',
        `${this.#rules.what}: a variable that had no gradient in the first step has one now, and there is no place for its ` +
          'state. With shardOptimizerState give minimize() the list of variables: minimize(loss, false, variables).',
      );
    }
    const placeOf = new Map(variables.map((variable, place) => [variable, place]));
    const mask = route.sharded.map((place) => {
      const gradient = gradients[placeOf.get(route.variables[place] as tf.Variable) ?? -1];
      return gradient === undefined ? 0 : 1;
    });
    const { processSet } = this.#rules;
    const union = allreduceSync(route.context, Int32Array.from(mask), {
      op: Max,
      processSet,
      name: `${route.name}.more`,
    });
    union.forEach((has, k) => {
      if (has === 1) route.isActive[k] = true;
    });
    route.mayGrow = route.isActive.includes(false);
  }

  /** Whether it is so on some rank. Collective. */
  #anyRank({ context, name }: Route, question: string, isSo: boolean): boolean {
    const { processSet } = this.#rules;
    const answer = allreduceSync(context, Int32Array.of(isSo ? 1 : 0), {
      op: Max,
      processSet,
      name: `${name}.${question}`,
    });
    return answer[0] === 1;
  }

  #checkSame(route: Route, { variables, locals }: ShardedStepInput): void {
    // Without a list of the user's more variables may come, for other purposes.
    const given = route.isListed
      ? variables
      : variables.filter((variable) => route.variables.includes(variable));
    if (signatureOf(given, locals) === route.signature) return;
    throw new HorovodError(
      'ERR_HVD_UNSUPPORTED',
      `${this.#rules.what}: with shardOptimizerState an optimizer is for one list of variables, in one order; it was first used ` +
        `with ${route.variables.length}, and is now given others (${variables.length}, ${locals.size} of them local). Register local ` +
        'variables before the first step, and make an optimizer for each list.',
    );
  }

  #lost(): HorovodError {
    return new HorovodError(
      'ERR_HVD_UNSUPPORTED',
      `${this.#rules.what}: its state is spread over the ranks of an init() that has ended. Call getWeights() on all ranks before ` +
        'shutdown(), and setWeights() with the result after init(), or go on with a new optimizer.',
    );
  }
}

function isWhole(variable: tf.Variable, { from, to }: Piece): boolean {
  return to - from === variable.size;
}

function assignValues(variable: tf.Variable, values: Float32Array): void {
  const tensor = makeTensor(values, variable.shape, 'float32');
  variable.assign(tensor);
  tensor.dispose();
}

function signatureOf(variables: readonly tf.Variable[], locals: ReadonlySet<tf.Variable>): string {
  return variables.map((variable) => `${variable.id}${locals.has(variable) ? 'l' : ''}`).join();
}
