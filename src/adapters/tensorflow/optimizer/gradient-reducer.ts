// Reduces lists of gradients over the ranks, again and again. For each list of variables there is a *route*: what
// the ranks agreed on (gradient-agreement.ts), cut into buckets (bucket-plan.ts). A *pass* is one backpropagation: it
// hears gradients as they come, where it can (tape-hook.ts), and reduces the rest when all are there.
//
// NOTE [Whose memory]. Gradients go in as tensors and come out as tensors. A tensor that is the reducer's to use up,
// that shares its memory with no other and that was made by this backpropagation is reduced where it is. Others
// are copied: two variables' gradients may be one array (d(a+b)), and a gradient may be a tensor of the user's. During
// backpropagation nothing is written, only copied out: a finished gradient may still be some other's input.

import * as tf from '@tensorflow/tfjs';
import type { HorovodContext } from '../../../context/context.ts';
import { defaultContext } from '../../../context/default/default-context.ts';
import { alloc } from '../../../operations/alloc.ts';
import type { MemoryOptions } from '../../../operations/collectives/allreduce-compressed.ts';
import { allreduceSync, groupedAllreduce, groupedAllreduceSync } from '../../../operations/collectives.ts';
import type { AllreduceOptions } from '../../../operations/options.ts';
import {
  type PreparedCollective,
  prepareAllreduceSync,
  type StartedCollective,
} from '../../../operations/prepared.ts';
import { chosenCompressor, isAuto } from '../../../tensor/compression/auto.ts';
import { isReducing } from '../../../tensor/compression/compressor.ts';
import type { TypedArray } from '../../../tensor/dtype.ts';
import { Adasum, Max } from '../../../tensor/reduce-op.ts';
import { bulkMemory } from '../backend/tfjs-node-memory.ts';
import {
  copyTensor,
  heapOfBackend,
  isSoleOwner,
  liveView,
  makeTensor,
  readTensor,
  readTensorLater,
} from '../tensor-access.ts';
import { planBuckets } from './bucket-plan.ts';
import { ErrorFeedback } from './error-feedback.ts';
import { agreeOnGradients, describeVariables, type Transport } from './gradient-agreement.ts';
import type { GradientRules } from './options.ts';
import { RouteNames } from './reducer-numbers.ts';
import { listenToTape } from './tape-hook.ts';

/** One for each variable, in its order; undefined where the loss does not depend on the variable. */
export type Gradients = readonly (tf.Tensor | undefined)[];

interface Bucket {
  readonly places: readonly number[];
  readonly name: string;
  /** Where its gradients are gathered, one after the other, and each gradient's part of it. Not for direct ones. */
  readonly staging?: {
    readonly parts: readonly Float32Array[];
    readonly prepared: PreparedCollective<unknown>;
  };
}

interface Route {
  readonly context: HorovodContext;
  /** Of the settings it was made with (autotune/tuned.ts). */
  readonly version: number;
  readonly transport: Transport;
  /** Places of the gradients that are reduced. */
  readonly places: ReadonlySet<number>;
  readonly buckets: readonly Bucket[];
  /** Before each step the ranks ask each other whether one has a gradient that this route lacks. */
  readonly mayGrow: boolean;
  readonly name: string;
  /** Of reduceLater(). */
  callsLater: number;
  /** Started and not yet waited for. */
  readonly inFlight: StartedCollective<unknown>[];
}

/** Lists of variables an optimizer is used with in turn. */
const routesKept = 8;

export class GradientReducer {
  readonly rules: GradientRules;
  readonly errorFeedback: ErrorFeedback;
  readonly #mayOverlap: boolean;
  readonly #routes = new Map<string, Route>();
  readonly #names: RouteNames;

  constructor(rules: GradientRules, mayOverlap: boolean) {
    this.rules = rules;
    this.#names = new RouteNames(rules);
    this.errorFeedback = new ErrorFeedback(rules);
    this.#mayOverlap = mayOverlap;
  }

  /** How many ranks' gradients are put together here; 1 if there is nobody to reduce with. */
  groupSize(): number {
    const { world } = defaultContext();
    const { processSet } = this.rules;
    if (processSet === undefined) return world.size;
    return processSet.included() === true ? (processSet.size() ?? 1) : 1;
  }

  begin(variables: readonly tf.Variable[]): Pass {
    return new Pass(this, variables, this.#routes.get(signatureOf(variables)), this.#mayOverlap);
  }

  /** The promise form, for backends that cannot be read synchronously; takes no tensor from the caller. */
  async reduceLater(variables: readonly tf.Variable[], gradients: Gradients): Promise<Gradients> {
    const route = this.routeFor(variables, gradients, [], ['staged']);
    // The next call may come before this one has ended. Numbered before the first await: reading takes its time, and on
    // each rank another.
    const name = `${route.name}.later.${route.callsLater++}`;
    const places = [...route.places].sort((a, b) => a - b);
    const list = places.map((place) => variables[place] as tf.Variable);
    const inputs: TypedArray[] = [];
    for (const place of places) {
      const gradient = gradients[place];
      const size = (variables[place] as tf.Variable).size;
      inputs.push(
        gradient === undefined ? new Float32Array(size) : (await readTensorLater(gradient)).slice(),
      );
    }
    const options = { ...this.#options(route.context, name, list), inPlace: true };
    await groupedAllreduce(route.context, this.errorFeedback.operands(inputs, list), options);
    const result: (tf.Tensor | undefined)[] = variables.map(() => undefined);
    places.forEach((place, i) => {
      result[place] = makeTensor(inputs[i] as TypedArray, (list[i] as tf.Variable).shape, 'float32');
    });
    return result;
  }

  /** The way for these variables; collective where there is none yet, or it lacks one that has a gradient now. */
  routeFor(
    variables: readonly tf.Variable[],
    gradients: Gradients,
    finished: readonly number[],
    transports: readonly Transport[],
  ): Route {
    const context = defaultContext();
    const signature = signatureOf(variables);
    const known = this.#routes.get(signature);
    const present = variables.map((_, place) => place).filter((place) => gradients[place] !== undefined);
    if (isCurrent(known, context)) {
      const lacks = !present.every((place) => known.places.has(place));
      if (!known.mayGrow || !this.#anyLacks(known, lacks)) return known;
      // Others may have heard less, and have started less: all are started, so that all end.
      for (const { staging } of known.buckets.slice(known.inFlight.length)) {
        if (staging !== undefined) known.inFlight.push(staging.prepared.start());
      }
      this.discardStarted(known);
    }
    if (known !== undefined) releaseRoute(known);
    this.#forgetOldRoutes();
    this.errorFeedback.forgetDisposed();
    const { what, processSet } = this.rules;
    const name = this.#names.next(context);
    const proposal = { variables: describeVariables(variables), present, finished, transports };
    const { order, transport, mayGrow } = agreeOnGradients(context, proposal, {
      what,
      name: `${name}.plan`,
      processSet,
    });
    const buckets = this.#makeBuckets(context, name, variables, order, transport);
    const { version } = context.tuned;
    const route = {
      context,
      version,
      transport,
      places: new Set(order),
      buckets,
      mayGrow,
      name,
      callsLater: 0,
      inFlight: [],
    };
    this.#routes.set(signature, route);
    return route;
  }

  /** What was started is waited for, and the results are left where they are. */
  discardStarted(route: Route): void {
    if (route.inFlight.length > 0) this.errorFeedback.discard(() => waitForAll(route));
  }

  release(): void {
    for (const route of this.#routes.values()) releaseRoute(route);
    this.#routes.clear();
  }

  /** A program that makes new variables again and again would keep buffers for all of them. */
  #forgetOldRoutes(): void {
    for (const [signature, route] of this.#routes) {
      if (this.#routes.size < routesKept) return;
      releaseRoute(route);
      this.#routes.delete(signature);
    }
  }

  /** Reduces tensors where they are, using them up; each is ours and has memory of its own. */
  reduceInPlace(
    context: HorovodContext,
    bucket: Bucket,
    tensors: readonly tf.Tensor[],
    variables: readonly tf.Variable[],
  ): readonly tf.Tensor[] {
    const options = { ...this.#options(context, bucket.name, variables), inPlace: true };
    const reduce = (views: readonly TypedArray[]) =>
      groupedAllreduceSync(context, this.errorFeedback.operands(views, variables), options);
    const taken = bulkMemory()?.take(tensors);
    if (taken === undefined) {
      const heap = heapOfBackend();
      if (heap !== undefined) context.transport.adopt(heap);
      // No call of tf between taking the views and the end of the reduction: they would die.
      reduce(tensors.map((tensor) => liveView(tensor) as TypedArray));
      return tensors;
    }
    try {
      reduce(taken.views);
    } catch (error) {
      taken.release();
      throw error;
    }
    return taken.give();
  }

  #compressionFor({ tuned }: HorovodContext): GradientRules['compression'] {
    const { compression } = this.rules;
    if (isAuto(compression)) tuned.compressions = compression.choices.map(({ name }) => name);
    return chosenCompressor(compression, tuned.compression);
  }

  #options(
    context: HorovodContext,
    name: string,
    variables: readonly tf.Variable[],
  ): AllreduceOptions & MemoryOptions {
    const { op, prescaleFactor, postscaleFactor, processSet } = this.rules;
    const compression = this.#compressionFor(context);
    const memory = this.errorFeedback.optionsFor(context, variables);
    return { op, compression, prescaleFactor, postscaleFactor, processSet, name, ...memory };
  }

  /** Whether any rank has a gradient that the route has no place for. Collective. */
  #anyLacks({ context, name }: Route, lacks: boolean): boolean {
    const { processSet } = this.rules;
    const answer = allreduceSync(context, Int32Array.of(lacks ? 1 : 0), {
      op: Max,
      processSet,
      name: `${name}.more`,
    });
    return answer[0] === 1;
  }

  #makeBuckets(
    context: HorovodContext,
    name: string,
    variables: readonly tf.Variable[],
    order: readonly number[],
    transport: Transport,
  ): Bucket[] {
    const { groups } = this.rules;
    const placeOf = new Map(variables.map((variable, place) => [variable, place]));
    return planBuckets({
      bytes: variables.map(({ size }) => size * Float32Array.BYTES_PER_ELEMENT),
      order,
      groups:
        groups === undefined || typeof groups === 'number'
          ? groups
          : groups.map((group) => group.flatMap((variable) => placeOf.get(variable) ?? [])),
      // The engine fuses and cuts by itself; buckets are for starting early.
      bucketBytes: transport === 'overlapped' ? context.tuned.bucketBytes : Number.POSITIVE_INFINITY,
    }).map((places, i): Bucket => {
      const bucketName = `${name}.${i}`;
      if (transport === 'direct') return { places, name: bucketName };
      return { places, name: bucketName, staging: this.#stage(context, bucketName, places, variables) };
    });
  }

  #stage(
    context: HorovodContext,
    name: string,
    places: readonly number[],
    variables: readonly tf.Variable[],
  ): NonNullable<Bucket['staging']> {
    const sizes = places.map((place) => (variables[place] as tf.Variable).size);
    const total = sizes.reduce((sum, size) => sum + size, 0);
    const buffer = alloc(context, total).data as Float32Array;
    let from = 0;
    const parts = sizes.map((size) => {
      const part = buffer.subarray(from, from + size);
      from += size;
      return part;
    });
    const { op, compression } = this.rules;
    const list = places.map((place) => variables[place] as tf.Variable);
    // Adasum and lossy compressors need to know where each gradient begins.
    const whole =
      op === Adasum || isReducing(compression) ? this.errorFeedback.operands(parts, list) : buffer;
    return { parts, prepared: prepareAllreduceSync(context, whole, this.#options(context, name, list)) };
  }
}

/** One backpropagation's way through the reducer. */
export class Pass {
  readonly #reducer: GradientReducer;
  readonly #variables: readonly tf.Variable[];
  readonly #route: Route | undefined;
  readonly #mayOverlap: boolean;
  readonly #placeOf: ReadonlyMap<tf.Variable, number>;
  /** Places heard during backpropagation, in order. */
  readonly #heard = new Set<number>();
  #canListen = false;
  #startedBuckets = 0;
  #lossId = Number.POSITIVE_INFINITY;

  constructor(
    reducer: GradientReducer,
    variables: readonly tf.Variable[],
    route: Route | undefined,
    mayOverlap: boolean,
  ) {
    this.#reducer = reducer;
    this.#variables = variables;
    this.#route = isCurrent(route, defaultContext()) ? route : undefined;
    this.#mayOverlap = mayOverlap;
    this.#placeOf = new Map(variables.map((variable, place) => [variable, place]));
    // A pass before this one ended in an exception of the user's: what it had started is still going on.
    if (this.#route !== undefined) reducer.discardStarted(this.#route);
  }

  /** The loss function, with ears. */
  listening(f: () => tf.Scalar): () => tf.Scalar {
    const isNeeded = this.#route === undefined || this.#route.transport === 'overlapped';
    return () => {
      const loss = f();
      this.#lossId = loss.id;
      if (this.#mayOverlap && isNeeded) {
        this.#canListen = listenToTape(loss, this.#variables, (variable, gradient) =>
          this.#hear(variable, gradient),
        );
      }
      return loss;
    };
  }

  /** Uses up the gradients and returns the reduced ones. */
  finish(gradients: Gradients): Gradients {
    return this.#reduce(gradients, true);
  }

  /** The same for tensors that were made for this pass, and by no loss. */
  finishOwn(tensors: Gradients): Gradients {
    this.#lossId = -1;
    return this.#reduce(tensors, true);
  }

  /** The same for gradients that are the caller's: they stay as they are. */
  finishWithCopies(gradients: Gradients): Gradients {
    return this.#reduce(gradients, false);
  }

  #hear(variable: tf.Variable, gradient: tf.Tensor): void {
    const place = this.#placeOf.get(variable);
    if (place === undefined) return;
    this.#heard.add(place);
    const route = this.#route;
    if (route === undefined || route.transport !== 'overlapped') return;
    const bucket = route.buckets.find(({ places }) => places.includes(place));
    const part = bucket?.staging?.parts[bucket.places.indexOf(place)];
    if (part === undefined) return; // new since the ranks agreed; they will agree again
    readInto(gradient, part);
    this.#startFull(route);
  }

  /** Starts buckets whose gradients are all there; in order, which is the same on every rank. */
  #startFull(route: Route): void {
    for (;;) {
      const bucket = route.buckets[this.#startedBuckets];
      if (bucket === undefined || !bucket.places.every((place) => this.#heard.has(place))) return;
      route.inFlight.push(bucket.staging?.prepared.start() as StartedCollective<unknown>);
      this.#startedBuckets++;
    }
  }

  #reduce(gradients: Gradients, areOurs: boolean): Gradients {
    const route = this.#reducer.routeFor(this.#variables, gradients, [...this.#heard], this.#transports());
    if (route !== this.#route) {
      // Nothing that was heard has been kept.
      this.#heard.clear();
      this.#startedBuckets = 0;
    }
    return route.transport === 'direct'
      ? this.#reduceDirectly(route, gradients, areOurs)
      : this.#reduceStaged(route, gradients, areOurs);
  }

  #reduceDirectly(route: Route, gradients: Gradients, areOurs: boolean): Gradients {
    const owned = gradients.map((gradient, place) => {
      if (!route.places.has(place)) return gradient;
      if (gradient === undefined) return tf.zeros((this.#variables[place] as tf.Variable).shape);
      if (areOurs && this.#isWritable(gradient)) return gradient;
      // tfjs-node copies by itself what others can see.
      const copy = bulkMemory() === undefined ? copyTensor(gradient) : gradient.clone();
      if (areOurs) this.#useUp(gradient);
      return copy;
    });
    for (const bucket of route.buckets) {
      const places = bucket.places.filter((place) => (owned[place] as tf.Tensor).size > 0);
      if (places.length === 0) continue;
      const tensors = places.map((place) => owned[place] as tf.Tensor);
      const variables = places.map((place) => this.#variables[place] as tf.Variable);
      this.#reducer.reduceInPlace(route.context, bucket, tensors, variables).forEach((reduced, i) => {
        owned[places[i] as number] = reduced;
      });
    }
    return owned;
  }

  #reduceStaged(route: Route, gradients: Gradients, areOurs: boolean): Gradients {
    for (const { places, staging } of route.buckets.slice(this.#startedBuckets)) {
      places.forEach((place, i) => {
        if (this.#heard.has(place)) return;
        const gradient = gradients[place];
        const part = staging?.parts[i] as Float32Array;
        if (gradient === undefined) part.fill(0);
        else readInto(gradient, part);
      });
      route.inFlight.push(staging?.prepared.start() as StartedCollective<unknown>);
    }
    waitForAll(route);
    const reduced = [...gradients];
    for (const { places, staging } of route.buckets) {
      places.forEach((place, i) => {
        const part = staging?.parts[i] as Float32Array;
        const gradient = gradients[place];
        const view =
          gradient !== undefined && areOurs && this.#isWritable(gradient) ? liveView(gradient) : undefined;
        if (view !== undefined) {
          view.set(part as never);
          return;
        }
        reduced[place] = makeTensor(part.slice(), (this.#variables[place] as tf.Variable).shape, 'float32');
        if (areOurs && gradient !== undefined) this.#useUp(gradient);
      });
    }
    return reduced;
  }

  /** A tensor from before the loss is the user's, whatever the loss function calls it. */
  #useUp(gradient: tf.Tensor): void {
    if (gradient.id > this.#lossId) gradient.dispose();
  }

  /** See NOTE [Whose memory]. */
  #isWritable(gradient: tf.Tensor): boolean {
    if (gradient.id <= this.#lossId) return false;
    return bulkMemory() !== undefined || (isSoleOwner(gradient) && liveView(gradient) !== undefined);
  }

  /** What this rank can do, the best first. */
  #transports(): Transport[] {
    const { transport, tuned } = defaultContext();
    const isFree = tuned.overlap === 'auto' ? transport.background === 'spare' : tuned.overlap === 'always';
    const mayOverlap = this.#mayOverlap && this.#canListen && transport.background !== 'none';
    const canOverlap = mayOverlap && isFree;
    tuned.hasBuckets ||= mayOverlap;
    const hasViews = ['wasm', 'cpu'].includes(tf.getBackend()) || bulkMemory() !== undefined;
    const direct: Transport[] = hasViews ? ['direct'] : [];
    return [...(canOverlap ? ['overlapped' as const] : []), ...direct, 'staged'];
  }
}

/** Copies a gradient's values. */
export function readInto(gradient: tf.Tensor, part: Float32Array): void {
  const memory = bulkMemory();
  if (memory !== undefined) memory.read([gradient], [part]);
  else part.set(readTensor(gradient) as Float32Array);
}

/** Made in this context, with the settings as they are. */
function isCurrent(route: Route | undefined, context: HorovodContext): route is Route {
  return route?.context === context && route.version === context.tuned.version;
}

function waitForAll({ inFlight }: Route): void {
  for (let started = inFlight.shift(); started !== undefined; started = inFlight.shift()) started.waitSync();
}

function releaseRoute(route: Route): void {
  for (const { staging } of route.buckets) staging?.prepared.release();
}

function signatureOf(variables: readonly tf.Variable[]): string {
  return variables.map(({ id }) => id).join();
}
